"""A real model behind the real server: bad requests, vanishing clients, and speculation as a client sees it.

After every kind of abuse one known request must answer its known text. The known text is the golden's (shared/goldens/real-models)
up to its first near-tie, where it is there.
"""

import json
import os
import re
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from conftest import ROOT, Server

PROMPT = 'def quicksort(xs):\n    """Return a sorted copy of xs."""\n'
KNOWN = {"prompt": PROMPT, "n_predict": 16, "temperature": 0, "return_tokens": True}
NEAR_TIE = 0.3  # goldens name the distance of the best two logits; below this the peer itself may differ


def golden_ids(name: str):
    shared = Path(os.environ.get("FORESAY_SHARED") or ROOT.parent / "shared")
    path = shared / "goldens" / "real-models" / f"{name}.json"
    if not path.exists():
        return None
    entry = next(p for p in json.loads(path.read_text())["prompts"] if p["text"] == PROMPT)
    sure = next((i for i, step in enumerate(entry["steps"]) if step["gap"] < NEAR_TIE), len(entry["steps"]))
    return entry["greedy"][:sure]


@pytest.fixture(scope="module")
def known(server):
    """The text that the known request must answer, now and after anything."""
    reply = server.client.post("/completion", json=KNOWN).json()
    golden = golden_ids("smollm2-135m-q4_1")
    if golden is not None:
        n = min(len(golden), KNOWN["n_predict"])
        assert n > 0 and reply["tokens"][:n] == golden[:n]
    assert reply["tokens_predicted"] == 16
    return reply["content"]


def assert_answers(server: Server, known: str) -> None:
    reply = server.client.post("/completion", json=KNOWN)
    assert reply.status_code == 200 and reply.json()["content"] == known
    assert server.client.get("/health").json() == {"status": "ok"}


def wait_until(condition, seconds: float, what: str) -> None:
    """Asks again and again: a slot's state can only be polled."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def all_idle(server: Server) -> bool:
    return not any(slot["is_processing"] for slot in server.client.get("/slots").json())


DEEP = "[" * 100000
LONG = "word " * 3000
# path, body, part of the message; all are 400
BAD = [
    ("/completion", b"", "parse error"),
    ("/completion", b"{", "parse error"),
    ("/completion", b"nonsense", "parse error"),
    ("/completion", b'{"prompt":"a"} x', "parse error"),
    ("/completion", b'{"prompt":"\xff\xfe"}', "UTF-8"),
    ("/completion", b"[]", "must be an object"),
    ("/completion", b"3", "must be an object"),
    ("/completion", DEEP.encode(), "nested deeper"),
    ("/completion", {}, "'prompt' not found"),
    ("/completion", {"prompt": None}, "'prompt' not found"),
    ("/completion", {"prompt": []}, "must not be empty"),
    ("/completion", {"prompt": 5}, "must be a string"),
    ("/completion", {"prompt": {"x": 1}}, "must be a string"),
    ("/completion", {"prompt": [49152]}, "invalid tokens"),
    ("/completion", {"prompt": [-1]}, "invalid tokens"),
    ("/completion", {"prompt": [2**63]}, "invalid tokens"),
    ("/completion", {"prompt": LONG}, "exceeds the available context size"),
    ("/completion", {"prompt": LONG, "stream": True}, "exceeds the available context size"),
    ("/completion", {"prompt": "a", "n_predict": "x"}, "Field 'n_predict'"),
    ("/completion", {"prompt": "a", "n_predict": -2}, "Field 'n_predict'"),
    ("/completion", {"prompt": "a", "max_tokens": -7}, "Field 'max_tokens'"),
    ("/completion", {"prompt": "a", "n_keep": -2}, "Field 'n_keep'"),
    ("/completion", {"prompt": "a", "n_discard": -1}, "Field 'n_discard'"),
    ("/completion", {"prompt": "a", "temperature": "hot"}, "Field 'temperature'"),
    ("/completion", b'{"prompt":"a","temperature":1e999}', "overflow"),
    ("/completion", {"prompt": "a", "seed": 2**32}, "Field 'seed'"),
    ("/completion", {"prompt": "a", "stream": "yes"}, "Field 'stream'"),
    ("/completion", {"prompt": "a", "stop": [1]}, "Field 'stop'"),
    ("/completion", {"prompt": "a", "repeat_penalty": 0}, "penalty_repeat"),
    ("/completion", {"prompt": "a", "repeat_last_n": -1}, "Field 'repeat_last_n'"),
    ("/completion", {"prompt": "a", "n_probs": -1}, "Field 'n_probs'"),
    ("/completion", {"prompt": "a", "samplers": ["nonsense"]}, "unknown sampler"),
    ("/completion", {"prompt": "a", "samplers": "kz"}, "unknown sampler letter"),
    ("/completion", {"prompt": "a", "logit_bias": 5}, "Field 'logit_bias'"),
    ("/completion", {"prompt": "a", "id_slot": 2}, "Invalid slot ID"),
    ("/completion", {"prompt": "a", "id_slot": -2}, "Invalid slot ID"),
    ("/completion", {"prompt": "a", "dry_sequence_breakers": []}, "Field 'dry_sequence_breakers'"),
    ("/completion", {"prompt": "a", "speculative.n_max": -1}, "Field 'speculative.n_max'"),
    ("/completion", {"prompt": "a", "speculative.n_max": 2.5}, "Field 'speculative.n_max'"),
    ("/completion", {"prompt": "a", "speculative": 4}, "Field 'speculative'"),
    ("/completion", {"prompt": "a", "speculative": {"n_min": "x"}}, "Field 'speculative.n_min'"),
    ("/completion", {"prompt": "a", "speculative.p_min": 1.5}, "Field 'speculative.p_min'"),
    ("/completion", {"prompt": "a", "speculative.relaxed_top_n": -1}, "Field 'speculative.relaxed_top_n'"),
    ("/completion", {"prompt": "a", "speculative.n_min": 3, "speculative.n_max": 2}, "Field 'speculative.n_min'"),
    ("/completion", {"prompt": "a", "speculative.type": "magic"}, "unknown speculative type"),
    ("/completion", {"prompt": "a", "n": 99}, "Field 'n'"),
    ("/tokenize", {"content": 5}, "Field 'content'"),
    ("/detokenize", {"tokens": ["x"]}, "token"),
    ("/detokenize", {"tokens": [10**9]}, "outside the vocabulary"),
]


def test_bad_requests_get_errors_and_leave_the_server_as_it_was(server, known):
    assert len(BAD) >= 40
    for path, body, part in BAD:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = server.client.post(path, content=content)
        shown = f"{path} {content[:80]!r}: {reply.text[:300]}"
        assert reply.status_code == 400, shown
        error = reply.json()["error"]
        assert error["code"] == 400 and part in error["message"], shown
        wanted = "exceed_context_size_error" if "exceeds" in part else "invalid_request_error"
        assert error["type"] == wanted, shown
    assert_answers(server, known)
    assert all_idle(server)


def raw(server: Server) -> socket.socket:
    url = httpx.URL(server.url)
    connection = socket.create_connection((url.host, url.port))
    connection.settimeout(10)
    return connection


@pytest.mark.parametrize("data, status", [
    (b"GARBAGE\r\n\r\n", 400),
    (b"GET /health HTTP/9.9\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nA: " + b"x" * 20000 + b"\r\n\r\n", 431),
    (b"POST /completion HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"POST /completion HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 400),
    (b"POST /completion HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
])
def test_malformed_http_is_refused(server, known, data, status):
    with raw(server) as connection:
        connection.sendall(data)
        answer = connection.recv(4096)
    assert re.match(rb"HTTP/1\.1 %d " % status, answer), answer
    assert_answers(server, known)


def test_clients_that_vanish_in_a_stream_free_their_slots(server, known):
    body = {"prompt": PROMPT, "n_predict": 1800, "temperature": 0, "ignore_eos": True, "stream": True}
    for _ in range(3):
        streams = [httpx.Client(base_url=server.url, timeout=60) for _ in range(2)]  # both slots
        for client in streams:
            with client.stream("POST", "/completion", json=body) as reply:
                next(reply.iter_lines())
            client.close()
        wait_until(lambda: all_idle(server), 2, "a slot is still busy 2 s after its client left")
    assert_answers(server, known)


def test_clients_that_vanish_while_they_wait_free_their_slots(server, known):
    body = json.dumps({"prompt": PROMPT, "n_predict": 1800, "temperature": 0, "ignore_eos": True}).encode()
    head = b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    connections = [raw(server) for _ in range(4)]  # two run, two wait in the queue
    for connection in connections:
        connection.sendall(head + body)
    wait_until(lambda: not all_idle(server), 10, "nothing started")
    for connection in connections:
        connection.close()
    wait_until(lambda: all_idle(server), 2, "a slot is still busy 2 s after its client left")
    assert_answers(server, known)


def test_the_neighbour_of_a_vanished_client_gets_its_text(server, known):
    answer = {}
    thread = threading.Thread(target=lambda: answer.update(httpx.post(f"{server.url}/completion", json=KNOWN, timeout=60).json()))
    body = {"prompt": PROMPT, "n_predict": 1800, "temperature": 0, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{server.url}/completion", json=body, timeout=60) as reply:
        lines = reply.iter_lines()
        next(lines)
        thread.start()
        for _ in range(10):
            next(lines)
    thread.join()
    assert answer["content"] == known


def test_a_stream_joins_to_the_text(server, known):
    with server.client.stream("POST", "/completion", json={**KNOWN, "stream": True}) as reply:
        events = [json.loads(line[6:]) for line in reply.iter_lines() if line]
    assert "".join(event["content"] for event in events) == known
    assert events[-1]["stop"] is True and all(not event["stop"] for event in events[:-1])
    assert len(events) == 17  # one per token and the end


# Speculation over HTTP, on the pair that the seed names.


@pytest.fixture(scope="module")
def pair(binary, clean_env, model):
    command = [str(binary), "serve", "--port", "0", "-m", str(model("qwen2.5-coder-1.5b-q4_k_m")),
               "--spec-draft-model", str(model("qwen2.5-coder-0.5b-q4_k_m")), "--spec-draft-n-max", "4", "-c", "1024", "-np", "1",
               "--no-spec-draft-adaptive"]
    running = Server(command, {**clean_env, "RELAXED_VERIFY_LOG": "1"}).wait()
    yield running
    running.stop()


CODE = {"prompt": "<|im_start|>user\nWrite a Python class for a bank account.<|im_end|>\n<|im_start|>assistant\n",
        "n_predict": 32, "temperature": 0, "return_tokens": True}
VERIFY = re.compile(r"\[RELAXED_VERIFY\] pos=\d+ relaxed_top_n=\d+ cur_p\.size=\d+ cur_p\.sorted=[01] draft='.*'\(id=\d+\) "
                    r"target_sample='.*'\(id=\d+\) -> (ACCEPT\(relaxed\)|reject)$")


def verify_lines(server: Server, request: dict):
    """The reply, and the verify lines that its request printed."""
    before = len(server.log)
    reply = server.client.post("/completion", json=request)
    assert reply.status_code == 200, reply.text
    wait_until(lambda: any("total time" in line for line in server.log[before:]), 5, "no timing lines")
    return reply.json(), [line for line in server.log[before:] if "[RELAXED_VERIFY]" in line]


def settings(reply: dict, *names: str):
    return [reply["generation_settings"][f"speculative.{name}"] for name in names]


def test_strict_drafts_change_neither_text_nor_log(pair):
    plain, lines = verify_lines(pair, {**CODE, "speculative.n_max": 0})
    assert not lines and "draft_n" not in plain["timings"]
    assert settings(plain, "n_max", "relaxed_top_n") == [0, 0]
    strict, lines = verify_lines(pair, CODE)
    assert not lines
    assert strict["tokens"] == plain["tokens"] and strict["content"] == plain["content"]
    assert settings(strict, "n_max", "n_min", "p_min", "relaxed_top_n") == [4, 0, 0, 0]
    timings = strict["timings"]
    assert 0 < timings["draft_n_accepted"] <= timings["draft_n"] and timings["draft_n_relaxed"] == 0


def test_relaxed_rule_per_request_is_echoed_counted_and_logged(pair):
    reply, lines = verify_lines(pair, {**CODE, "n_predict": 64, "speculative": {"relaxed_top_n": 5, "n_max": 64, "p_min": 0.25}})
    assert settings(reply, "n_max", "relaxed_top_n") == [4, 5]  # n_max is capped to the server's
    assert settings(reply, "p_min")[0] == pytest.approx(0.25)
    assert lines and all(VERIFY.search(line) for line in lines), lines
    accepted = sum(line.endswith("ACCEPT(relaxed)") for line in lines)
    assert accepted == reply["timings"]["draft_n_relaxed"]
    # The next request is strict again: the rule was that request's own.
    after, lines = verify_lines(pair, CODE)
    assert not lines and settings(after, "relaxed_top_n") == [0]


def test_extreme_n_accepts_all_and_stays_whole(pair):
    reply, _ = verify_lines(pair, {**CODE, "speculative.relaxed_top_n": 300000, "min_p": 0, "top_k": 0, "top_p": 1})
    timings = reply["timings"]
    assert timings["draft_n_accepted"] == timings["draft_n"] > 0
    assert any("draft acceptance = 1.00000" in line for line in pair.log)
    assert reply["tokens_predicted"] == 32 or reply["stop_type"] == "eos"


def test_acceptance_in_metrics_follows_the_replies(pair):
    def counters():
        text = pair.client.get("/metrics").text
        return [float(re.search(rf"^{name} (\S+)$", text, re.M).group(1)) for name in (
            "llamacpp:spec_decode_num_draft_tokens_total", "llamacpp:spec_decode_num_accepted_tokens_total",
            "foresay:draft_relaxed_tokens_total")]

    before = counters()
    timings = pair.client.post("/completion", json={**CODE, "speculative.relaxed_top_n": 5}).json()["timings"]
    gained = [now - then for now, then in zip(counters(), before)]
    assert gained == [timings["draft_n"], timings["draft_n_accepted"], timings["draft_n_relaxed"]]


# Public failure reports retold (shared/spec/cases.md), on a model that drafts for itself.


@pytest.fixture(scope="module")
def twin(binary, clean_env, smollm):
    command = [str(binary), "serve", "--port", "0", "-m", str(smollm), "--spec-draft-model", str(smollm), "--spec-draft-n-max", "6",
               "-c", "1024", "-np", "2", "--no-spec-draft-adaptive"]
    running = Server(command, clean_env).wait()
    yield running
    running.stop()


def scores(reply: dict) -> list:
    """Of each token: its id, its log-probability and the five best, as flat numbers."""
    return [[p["id"], p["logprob"]] + [x for top in p["top_logprobs"] for x in (top["id"], top["logprob"])]
            for p in reply["completion_probabilities"]]


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_drafted_tokens_carry_their_log_probabilities(twin, temperature):  # cases.md A4
    body = {"prompt": "The capital of a small country is", "n_predict": 23, "temperature": temperature, "seed": 3, "n_probs": 5,
            "return_tokens": True}
    plain = twin.client.post("/completion", json={**body, "speculative.n_max": 0}).json()
    want = scores(plain)
    assert len(want) == plain["tokens_predicted"] > 8 and any(score[1] < -0.01 for score in want[1:])
    for n_predict in (23, 9):  # 9 ends inside a block
        reply = twin.client.post("/completion", json={**body, "n_predict": n_predict}).json()
        assert reply["timings"]["draft_n"] > 0
        got = scores(reply)
        assert len(got) == reply["tokens_predicted"] == len(reply["tokens"])
        assert [score[0] for score in got] == reply["tokens"]
        for mine, theirs in zip(got, want):
            assert mine == pytest.approx(theirs, abs=1e-3)
    with twin.client.stream("POST", "/completion", json={**body, "stream": True}) as reply:
        events = [json.loads(line[6:]) for line in reply.iter_lines() if line]
    streamed = [score for event in events if event.get("completion_probabilities") for score in scores(event)]
    assert [s[0] for s in streamed] == [s[0] for s in want]
    openai = twin.client.post("/v1/completions", json={**body, "max_tokens": 23, "logprobs": 5}).json()["choices"][0]["logprobs"]
    assert openai["token_logprobs"] == pytest.approx([score[1] for score in want], abs=1e-3)


def test_settings_of_a_request_take_effect_or_are_refused_by_name(twin):  # cases.md A5
    def ask(**fields):
        return twin.client.post("/completion", json={**KNOWN, **{f"speculative.{k}": v for k, v in fields.items()}})

    want = ask().json()["tokens"]
    for n_max, in_force in ((0, 0), (1, 1), (4, 4), (6, 6), (7, 6), (1000, 6), (None, 6)):
        reply = ask(n_max=n_max).json()
        assert reply["tokens"] == want and settings(reply, "n_max") == [in_force], n_max
        assert ("draft_n" in reply["timings"]) == (in_force > 0)
    assert "draft_n" not in ask(type="none").json()["timings"]
    for fields, name in (({"n_max": -1}, "n_max"), ({"n_max": 2.5}, "n_max"), ({"n_max": "4"}, "n_max"),
                         ({"n_min": 8, "n_max": 4}, "n_min"), ({"p_min": -1}, "p_min"), ({"p_min": 2}, "p_min")):
        reply = ask(**fields)
        assert reply.status_code == 400 and f"speculative.{name}" in reply.json()["error"]["message"], (fields, reply.text)
    assert settings(ask().json(), "n_max", "n_min", "p_min") == [6, 0, 0]


def test_props_and_slots_tell_what_drafts(twin):  # cases.md A2
    said = twin.client.get("/props").json()["speculative"]
    assert said["active"] is True and said["n_max"] == 6 and "draft-simple" in json.dumps(said) and "strict" in json.dumps(said)
    assert all(slot["speculative"] for slot in twin.client.get("/slots").json())


@pytest.mark.parametrize("extra, more_kib, part", [
    (["-c", "2048"], 60 << 10, "can't map the file of"),  # the drafter's weights don't fit
    (["-c", "32768", "-ctkd", "f32", "-ctvd", "f32"], 700 << 10, "KV cache of 32768 cells"),  # its cache doesn't
])
def test_a_drafter_without_memory_is_an_error_at_start(binary, clean_env, smollm, extra, more_kib, part):  # cases.md A14
    command = [str(binary), "serve", "--port", "0", "-m", str(smollm), *extra]
    alone = Server(command, clean_env).wait()
    peak = int(re.search(r"VmPeak:\s+(\d+)", Path(f"/proc/{alone.process.pid}/status").read_text()).group(1))
    alone.stop()
    limit = (peak + more_kib) * 1024
    result = subprocess.run([*command, "--spec-draft-model", str(smollm)], capture_output=True, text=True, timeout=60, env=clean_env,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)), check=False)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert "--spec-draft-model" in last and part in last and re.search(r"\d+ (bytes|MiB)", last), last


def test_a_reply_without_drafts_says_why(twin):  # cases.md A2 (e)
    def timings(**fields):
        return twin.client.post("/completion", json={**KNOWN, **fields}).json()["timings"]

    drafted = timings()
    assert drafted["draft_n"] > 0 and "draft_off" not in drafted
    for fields, reason in (({"speculative.n_max": 0}, "speculative.n_max"), ({"speculative.type": "none"}, "speculative.type"),
                           ({"n_predict": 1}, "ended before a draft")):
        off = timings(**fields)
        assert "draft_n" not in off and reason in off["draft_off"], (fields, off)
    chat = twin.client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8,
                                                         "speculative.n_max": 0}).json()
    assert "speculative.n_max" in chat["timings"]["draft_off"]


def test_the_memory_figure_is_what_is_used(pair):  # cases.md A14 (b)
    pair.client.post("/completion", json=CODE).raise_for_status()
    planned = float(re.search(r"^foresay:memory_bytes (\S+)", pair.client.get("/metrics").text, re.MULTILINE)[1])
    resident = 1024 * int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pair.process.pid}/status").read_text())[1])
    assert 0.9 < resident / planned < 1.1, (resident, planned)
