#!/usr/bin/env python3
"""Load on a running server: 1 to 32 clients with prompts of mixed lengths, cancels and garbage, and what must hold meanwhile.

  tests/load/load_test.py --url http://127.0.0.1:8080 --pid PID --minutes 10
  tests/load/load_test.py --url URL --pid PID --peer-url URL2 --minutes 10     # turns with another server: figures of both

Fails (exit code 1) when the server stops answering, when a finished answer differs from the answer that the same request got
alone, when a slot stays busy after the last client left, or when memory grows after the warm-up. The other server is only
measured: what it answers isn't judged, but answers that differ from the ones it gave alone are counted. A turn in which
the machine stood still (a suspended laptop, a stopped job) is measured again.

Needs httpx. Only completions are sent: POST /completion, which both servers have.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional
from urllib.parse import urlsplit

import httpx

WORDS = ("the quick brown fox jumps over a lazy dog while rain falls on the old harbour and nobody counts the waves "
         "that carry paper boats out to the open sea").split()
CLIENTS = [1, 2, 4, 8, 16, 32]
GARBAGE = [
    b"GARBAGE\r\n\r\n",
    b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{{{{{",
    b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{\"prompt\":",
    b"POST /completion HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    bytes(range(256)),
]
BAD_BODIES = [b"[" * 5000, b'{"prompt":5}', b'{"prompt":"a","n_predict":"x"}', b'{"prompt":"a","grammar":"root ::= ("}', b'"' + b"\xff" * 9]


def workload(seed: int, n: int) -> List[dict]:
    """n requests: prompts of 3 to 300 words, answers of 1 to 48 tokens, greedy and sampled with a seed, half of them without
    reuse of a cached prompt."""
    rng = random.Random(seed)
    out = []
    for i in range(n):
        prompt = " ".join(rng.choice(WORDS) for _ in range(rng.choice([3, 10, 30, 100, 300])))
        body = {"prompt": prompt, "n_predict": rng.choice([1, 4, 12, 24, 48]), "temperature": rng.choice([0, 0.8]), "seed": 1000 + i,
                "top_k": 40, "top_p": 0.95, "min_p": 0.05, "cache_prompt": rng.random() < 0.5}
        if rng.random() < 0.2:
            body["stop"] = [rng.choice([" the", ".", " a", "\n"])]
        out.append(body)
    return out


@dataclass
class Figures:
    """Of one server with one number of clients."""
    seconds: float = 0.0
    tokens: int = 0
    answers: int = 0
    cancelled: int = 0
    refused: int = 0  # 429
    garbage: int = 0
    different: int = 0
    repeated: int = 0  # turns that were thrown away
    first_ms: List[float] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self) -> dict:
        ordered = sorted(self.first_ms)
        at = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0
        return {"tokens_per_s": round(self.tokens / self.seconds, 1) if self.seconds else 0.0, "answers": self.answers,
                "cancelled": self.cancelled, "refused": self.refused, "garbage": self.garbage, "different": self.different,
                "repeated": self.repeated,
                "ttft_ms_p50": round(at(0.5), 1), "ttft_ms_p95": round(at(0.95), 1)}


class Target:
    def __init__(self, name: str, url: str, requests: List[dict], is_judged: bool):
        self.name, self.url, self.requests, self.is_judged = name, url.rstrip("/"), requests, is_judged
        self.alone: List[str] = []
        self.errors: List[str] = []
        self.figures: Dict[int, Figures] = {}
        self.client = httpx.AsyncClient(base_url=self.url, timeout=1800, limits=httpx.Limits(max_connections=None))

    async def learn(self) -> None:
        """Every answer, each asked for alone."""
        for body in self.requests:
            reply = await self.client.post("/completion", json=body)
            reply.raise_for_status()
            self.alone.append(reply.json()["content"])

    async def ask(self, rng: random.Random, figures: Figures) -> None:
        i = rng.randrange(len(self.requests))
        leaves_after = rng.randrange(1, 8) if rng.random() < 0.15 else None
        begin = time.monotonic()
        text, n_events = "", 0
        async with self.client.stream("POST", "/completion", json={**self.requests[i], "stream": True}) as reply:
            if reply.status_code == 429:
                figures.refused += 1
                await reply.aread()
                await asyncio.sleep(0.2)
                return
            if reply.status_code != 200:
                self.errors.append(f"status {reply.status_code}: {(await reply.aread())[:300]!r}")
                return
            async for line in reply.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    self.errors.append(str(event)[:300])
                    return
                if n_events == 0:
                    figures.first_ms.append((time.monotonic() - begin) * 1000)
                n_events += 1
                text += event["content"]
                figures.tokens += 0 if event.get("stop") else 1
                if leaves_after is not None and n_events >= leaves_after:
                    figures.cancelled += 1
                    return
                if event.get("stop"):
                    figures.answers += 1
                    if text != self.alone[i]:
                        figures.different += 1
                        if self.is_judged:
                            self.errors.append(f"request {i}: {text!r} instead of {self.alone[i]!r}")
                    return
        self.errors.append(f"request {i}: the stream ended without its final event")

    async def throw_garbage(self, rng: random.Random, figures: Figures) -> None:
        """Bytes that are no request, or a request that can't be served: an error or a closed connection, nothing else."""
        figures.garbage += 1
        if rng.random() < 0.5:
            reply = await self.client.post("/completion", content=rng.choice(BAD_BODIES))
            if self.is_judged and reply.status_code != 400:
                self.errors.append(f"a bad body got {reply.status_code}: {reply.text[:200]}")
            return
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(rng.choice(GARBAGE))
            writer.write_eof()
            await writer.drain()
            await asyncio.wait_for(reader.read(4096), 30)
        except (ConnectionError, OSError):
            pass
        finally:
            writer.close()

    async def run(self, n_clients: int, seconds: float, seed: int) -> None:
        """One turn, repeated while it was disturbed."""
        total = self.figures.setdefault(n_clients, Figures())
        for attempt in range(30):
            figures, broken = Figures(), []
            stood_still = await self.turn(n_clients, seconds, seed + attempt, figures, broken)
            if not stood_still:
                total.add(figures)
                self.errors += broken
                return
            total.repeated += 1
            total.different += figures.different  # this counts whatever the clock did
        self.errors.append("no turn of 30 ran undisturbed")

    async def turn(self, n_clients: int, seconds: float, seed: int, figures: Figures, broken: List[str]) -> bool:
        """Fills figures, and `broken` with failed connections. True: the machine stood still meanwhile."""
        begin = time.monotonic()
        longest = 0.0

        async def pulse() -> None:
            nonlocal longest
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.2)
                now = time.monotonic()
                longest, last = max(longest, now - last), now

        async def one(k: int) -> None:
            rng = random.Random(seed * 1000 + k)
            while time.monotonic() - begin < seconds and len(self.errors) + len(broken) < 20:
                try:
                    if rng.random() < 0.05:
                        await self.throw_garbage(rng, figures)
                    else:
                        await self.ask(rng, figures)
                except (httpx.HTTPError, asyncio.TimeoutError) as e:
                    broken.append(f"{type(e).__name__}: {e}")

        heart = asyncio.create_task(pulse())
        await asyncio.gather(*(one(k) for k in range(n_clients)))
        heart.cancel()
        figures.seconds += time.monotonic() - begin
        return longest > 3

    async def slots_free(self) -> bool:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            reply = await self.client.get("/slots")
            reply.raise_for_status()
            if not any(slot["is_processing"] for slot in reply.json()):
                return True
            await asyncio.sleep(0.1)
        return False

    async def ends_well(self) -> None:
        if not await self.slots_free():
            self.errors.append("a slot is still busy 10 s after the last client left")
        # Every slot still works: as many requests at once as there are slots.
        slots = (await self.client.get("/slots")).json()
        for i in range(0, len(self.requests), max(len(slots), 1)):
            group = range(i, min(i + len(slots), len(self.requests)))
            replies = await asyncio.gather(*(self.client.post("/completion", json=self.requests[j]) for j in group))
            for j, reply in zip(group, replies):
                if reply.status_code != 200 or reply.json()["content"] != self.alone[j]:
                    self.errors.append(f"after the load request {j} answers {reply.text[:200]}")


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def watch(pid: int, peaks: List[float]) -> None:
    """Keeps the last entry of peaks, the present round's, up to date."""
    while True:
        peaks[-1] = max(peaks[-1], rss_mib(pid))
        await asyncio.sleep(0.5)


def memory_verdict(peaks: List[float], limit_mib: float) -> dict:
    """Each round goes through the same numbers of clients; the first is the warm-up."""
    grown = peaks[-1] - peaks[min(1, len(peaks) - 1)]
    return {"peak_mib_per_round": [round(mib, 1) for mib in peaks], "grown_mib": round(grown, 1), "is_flat": grown <= limit_mib}


async def main(args: argparse.Namespace) -> int:
    requests = workload(args.seed, args.requests)
    targets = [Target("foresay", args.url, requests, True)]
    if args.peer_url:
        targets.append(Target("peer", args.peer_url, requests, False))
    for target in targets:
        await target.learn()
    seconds = args.seconds if args.seconds else args.minutes * 60
    clients = [n for n in CLIENTS if n <= args.clients]
    turn = seconds / (args.rounds * len(clients) * len(targets))
    peaks: List[float] = [0.0]
    begin = time.monotonic()
    watcher = asyncio.create_task(watch(args.pid, peaks)) if args.pid else None
    for turns in range(args.rounds):
        if turns > 0:
            peaks.append(0.0)
        for n in clients:
            for target in targets:
                await target.run(n, turn, args.seed + turns * 100 + n)
    took = time.monotonic() - begin
    if watcher:
        watcher.cancel()
    await targets[0].ends_well()
    memory = memory_verdict(peaks, args.max_growth) if args.pid else None
    report = {"seconds": round(took), "memory": memory,
              "figures": {t.name: {str(n): f.row() for n, f in t.figures.items()} for t in targets}}
    for target in targets:
        print(f"{target.name:8} clients  tokens/s  ttft p50 ms  ttft p95 ms  answers  cancelled  garbage  refused  different  repeated")
        for n, figures in target.figures.items():
            row = figures.row()
            print(f"{'':8} {n:7} {row['tokens_per_s']:9} {row['ttft_ms_p50']:12} {row['ttft_ms_p95']:12} {row['answers']:8} "
                  f"{row['cancelled']:10} {row['garbage']:8} {row['refused']:8} {row['different']:10} {row['repeated']:9}")
    if memory:
        print("memory:", memory)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1))
    errors = list(targets[0].errors)
    if memory and not memory["is_flat"]:
        errors.append(f"memory grew by {memory['grown_mib']} MiB after the warm-up (limit {args.max_growth})")
    if not sum(f.answers for f in targets[0].figures.values()):
        errors.append("no answer was finished")
    for text in errors[:20]:
        print("ERROR:", text, file=sys.stderr)
    for text in targets[-1].errors[:5] if args.peer_url else []:
        print("peer:", text, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--peer-url")
    parser.add_argument("--pid", type=int, default=0, help="of the server: its memory is watched")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=0, help="instead of minutes")
    parser.add_argument("--clients", type=int, default=32, help="most at once")
    parser.add_argument("--rounds", type=int, default=5, help="the numbers of clients are gone through so often")
    parser.add_argument("--requests", type=int, default=24, help="different requests")
    parser.add_argument("--max-growth", type=float, default=32, help="MiB after the warm-up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="file for the figures")
    sys.exit(asyncio.run(main(parser.parse_args())))
