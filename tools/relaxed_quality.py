#!/usr/bin/env python3
"""What relaxed acceptance costs in quality: exact match, log-probability, repetition, programs that work.

    tools/relaxed_quality.py TARGET DRAFTER [--json FILE] [--rules 0,2,5,10,20,100,m0.7] [--n-max 4] [--tokens 128]

Drives the built program (build/release/foresay, or --binary) over HTTP. Greedy decoding, no controller, the set of candidates wide
open (min_p 0, top_k 200), so that N means N: the same command on the same files gives the same texts. A rule is N (rank below N), or mX
(N 100 within X nats of the best candidate). The answers to the programming tasks run in a process of their own: no network where
unshare works, bounded time, memory, file size and processes, an empty folder.
"""

import argparse
import concurrent.futures
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

# (name, what the function does, checks). Our own tasks: short, with one right result per check.
TASKS = [
    ("add_digits", "takes a non-negative integer and returns the sum of its decimal digits",
     ["add_digits(0) == 0", "add_digits(493) == 16", "add_digits(1000) == 1"]),
    ("is_palindrome", "takes a string and returns True if it reads the same backwards, ignoring case and everything that is not a letter or digit",
     ["is_palindrome('A man, a plan, a canal: Panama')", "not is_palindrome('hello')", "is_palindrome('')"]),
    ("count_vowels", "takes a string and returns how many of its letters are vowels (a, e, i, o, u), upper or lower case",
     ["count_vowels('Hello World') == 3", "count_vowels('xyz') == 0", "count_vowels('AEiou') == 5"]),
    ("gcd", "takes two positive integers and returns their greatest common divisor", ["gcd(12, 18) == 6", "gcd(7, 5) == 1", "gcd(100, 10) == 10"]),
    ("fibonacci", "takes n >= 0 and returns the n-th Fibonacci number, with fibonacci(0) == 0 and fibonacci(1) == 1",
     ["fibonacci(0) == 0", "fibonacci(1) == 1", "fibonacci(10) == 55", "fibonacci(20) == 6765"]),
    ("merge_sorted", "takes two sorted lists of numbers and returns one sorted list with all their elements",
     ["merge_sorted([1, 4], [2, 3, 9]) == [1, 2, 3, 4, 9]", "merge_sorted([], [1]) == [1]", "merge_sorted([1, 1], [1]) == [1, 1, 1]"]),
    ("is_balanced", "takes a string and returns True if its brackets (), [] and {} are balanced and properly nested; other characters do not matter",
     ["is_balanced('([]{})')", "not is_balanced('([)]')", "not is_balanced('((')", "is_balanced('a(b)c')"]),
    ("flatten", "takes a list that may contain lists, nested to any depth, and returns a flat list of the elements in order",
     ["flatten([1, [2, [3, 4]], 5]) == [1, 2, 3, 4, 5]", "flatten([]) == []", "flatten([[['a']]]) == ['a']"]),
    ("roman", "takes an integer from 1 to 3999 and returns its Roman numeral as an upper-case string",
     ["roman(4) == 'IV'", "roman(1994) == 'MCMXCIV'", "roman(3999) == 'MMMCMXCIX'"]),
    ("word_counts", "takes a string and returns a dict from each lower-cased word (split at white space) to its number of occurrences",
     ["word_counts('a B a') == {'a': 2, 'b': 1}", "word_counts('') == {}"]),
    ("primes_below", "takes n and returns the list of all prime numbers smaller than n in ascending order",
     ["primes_below(10) == [2, 3, 5, 7]", "primes_below(2) == []", "len(primes_below(100)) == 25"]),
    ("rotate", "takes a list and an integer k and returns a new list rotated to the right by k places; k may be larger than the list; an empty list stays empty",
     ["rotate([1, 2, 3, 4], 1) == [4, 1, 2, 3]", "rotate([1, 2, 3], 4) == [3, 1, 2]", "rotate([], 3) == []"]),
    ("transpose", "takes a matrix as a list of rows of equal length and returns its transpose as a list of lists",
     ["transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]", "transpose([[1]]) == [[1]]"]),
    ("run_lengths", "takes a string and returns its run-length encoding as a list of (character, count) tuples",
     ["run_lengths('aaabcc') == [('a', 3), ('b', 1), ('c', 2)]", "run_lengths('') == []"]),
    ("binary_search", "takes a sorted list and a value and returns the index of the value, or -1 if it is not in the list",
     ["binary_search([1, 3, 5, 7], 5) == 2", "binary_search([1, 3], 2) == -1", "binary_search([], 1) == -1"]),
    ("anagrams", "takes a list of words and returns a list of groups (lists) of words that are anagrams of each other, groups in order of their first word",
     ["anagrams(['eat', 'tan', 'tea', 'nat', 'bat']) == [['eat', 'tea'], ['tan', 'nat'], ['bat']]", "anagrams([]) == []"]),
    ("to_base", "takes a non-negative integer and a base from 2 to 16 and returns the number in that base as a lower-case string",
     ["to_base(255, 16) == 'ff'", "to_base(0, 2) == '0'", "to_base(10, 2) == '1010'"]),
    ("second_largest", "takes a list of numbers and returns the second largest distinct value, or None if there is none",
     ["second_largest([3, 1, 3, 2]) == 2", "second_largest([5, 5]) is None", "second_largest([]) is None"]),
    ("caesar", "takes a string and an integer shift and returns the string with each ASCII letter shifted in the alphabet, keeping case and other characters",
     ["caesar('Abc, xyz!', 3) == 'Def, abc!'", "caesar('a', -1) == 'z'", "caesar('', 5) == ''"]),
    ("edit_distance", "takes two strings and returns their Levenshtein distance",
     ["edit_distance('kitten', 'sitting') == 3", "edit_distance('', 'abc') == 3", "edit_distance('same', 'same') == 0"]),
]

TEXTS = [
    "Explain in one paragraph why bread dough rises.",
    "Give me five practical tips for a first ten-kilometre run.",
    "Write the opening of a short story about a lighthouse keeper who collects lost letters.",
    "Describe the difference between weather and climate to a child.",
]


def limits() -> None:
    """In the child, before the answer runs."""
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))  # counts only for users other than root
    except (ValueError, OSError):
        pass


def isolation() -> list:
    """A command in front that takes the network, other processes and root away; empty where the system forbids it."""
    for command in (["unshare", "--user", "--net", "--pid", "--ipc", "--fork", "--kill-child"], ["unshare", "--net"]):
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return []


def passes(code: str, checks: list, front: list) -> bool:
    """Whether the code satisfies the checks, in a process of its own."""
    # The program prints its verdict under a word that the answer can't know.
    word = os.urandom(8).hex()
    body = f"{code}\n\n" + "\n".join(f"assert {check}" for check in checks) + f"\nprint({word!r})\n"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            done = subprocess.run([*front, sys.executable, "-I", "-S", "-c", body], cwd=folder, env={"PATH": "/usr/bin:/bin"},
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=10, preexec_fn=limits)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0 and done.stdout.decode(errors="replace").rstrip().endswith(word)


def code_of(text: str) -> str:
    """The first code block, also one that the end of the answer cut off; else the text."""
    found = re.search(r"```(?:python)?\s*\n(.*?)(?:```|\Z)", text, re.S)
    return found.group(1) if found else text


def repeated(tokens: list, n: int = 4) -> float:
    """Share of n-grams that stood in the text before."""
    grams = [tuple(tokens[i:i + n]) for i in range(len(tokens) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def common_prefix(a: list, b: list) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


class Server:
    def __init__(self, args):
        command = [args.binary, "serve", "-m", args.target, "--spec-draft-model", args.drafter, "--port", "0", "-np", str(args.slots),
                   "-c", str(1024 * args.slots), "--spec-draft-n-max", str(args.n_max), "--no-spec-draft-adaptive"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                break
        else:
            sys.exit("the server did not start: " + " ".join(command))
        self.url = found.group(1)
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
        self.wait_ready()

    def post(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=900) as reply:
            return json.load(reply)

    def wait_ready(self) -> None:
        import time
        while True:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=10):
                    return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server ended while it loaded")
                time.sleep(0.2)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


def rule_fields(rule: str) -> dict:
    """The request's fields for a rule: N, or mX."""
    if rule.startswith("m"):
        return {"speculative.rule": "relaxed", "speculative.relaxed_top_n": 100, "speculative.relaxed_delta": float(rule[1:])}
    n = int(rule)
    return {"speculative.rule": "relaxed" if n > 1 else "strict", "speculative.relaxed_top_n": n}


def answer(server: Server, args, prompt: str, rule: str) -> dict:
    text = server.post("/apply-template", {"messages": [{"role": "user", "content": prompt}]})["prompt"]
    body = {"prompt": text, "temperature": 0, "min_p": 0, "top_k": 200, "top_p": 1, "n_predict": args.tokens, "n_probs": 1, "return_tokens": True,
            "cache_prompt": False, **rule_fields(rule)}
    reply = server.post("/completion", body)
    probs = reply["completion_probabilities"]
    return {"text": reply["content"], "tokens": [p["id"] for p in probs], "logprobs": [p["logprob"] for p in probs], "timings": reply["timings"]}


def evaluate(server: Server, args, rule: str, front: list, strict: list) -> tuple:
    prompts = [f"Write a Python function `{name}` that {what}. Answer with the function in one code block and nothing else." for name, what, _ in TASKS]
    prompts += TEXTS
    if args.limit:
        prompts = prompts[:args.limit]
    with concurrent.futures.ThreadPoolExecutor(args.slots) as pool:
        answers = list(pool.map(lambda prompt: answer(server, args, prompt, rule), prompts))
    strict = strict or answers
    tasks = list(zip(TASKS, answers))
    logprobs = [p for a in answers for p in a["logprobs"]]
    timings = [a["timings"] for a in answers]
    total = lambda key: sum(t.get(key, 0) for t in timings)
    n_tokens = sum(len(a["tokens"]) for a in answers)
    row = {
        "rule": rule,
        "texts": len(answers),
        "same_text": sum(a["tokens"] == s["tokens"] for a, s in zip(answers, strict)),
        "common_prefix": statistics.mean(common_prefix(a["tokens"], s["tokens"]) / max(1, len(s["tokens"])) for a, s in zip(answers, strict)),
        "mean_logprob": statistics.mean(logprobs),
        "worst_logprob": min(logprobs),
        "repeated_4grams": statistics.mean(repeated(a["tokens"]) for a in answers),
        "passed": sum(passes(code_of(a["text"]), task[2], front) for task, a in tasks),
        "tasks": len(tasks),
        "acceptance": total("draft_n_accepted") / max(1, total("draft_n")),
        "relaxed_share": total("draft_n_relaxed") / max(1, n_tokens),
        "tokens": n_tokens,
    }
    return row, answers


def table(rows: list) -> str:
    lines = ["| rule | same text as strict | common beginning | mean log-prob | worst | repeated 4-grams | programs that pass | acceptance | relaxed tokens |",
             "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        name = "strict" if r["rule"] in ("0", "1") else (f"within {r['rule'][1:]} nats" if r["rule"][0] == "m" else f"N = {r['rule']}")
        lines.append(f"| {name} | {r['same_text']}/{r['texts']} | {100 * r['common_prefix']:.0f} % | {r['mean_logprob']:.3f} | {r['worst_logprob']:.2f} | "
                     f"{100 * r['repeated_4grams']:.1f} % | {r['passed']}/{r['tasks']} | {r['acceptance']:.3f} | {100 * r['relaxed_share']:.1f} % |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target")
    parser.add_argument("drafter")
    parser.add_argument("--binary", default=os.path.join(os.path.dirname(__file__), "..", "build", "release", "foresay"))
    parser.add_argument("--rules", default="0,2,5,10,20,100,m0.7")
    parser.add_argument("--n-max", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--slots", type=int, default=4, help="texts at a time; the texts don't depend on it")
    parser.add_argument("--limit", type=int, default=0, help="only the first so many prompts")
    parser.add_argument("--json", help="the rows and all answers")
    args = parser.parse_args()
    front = isolation()
    print("answers run", "behind: " + " ".join(front) if front else "without a network namespace: unshare isn't allowed here", file=sys.stderr)
    server = Server(args)
    rows, all_answers, strict = [], {}, []
    try:
        for rule in args.rules.split(","):
            row, answers = evaluate(server, args, rule, front, strict)
            strict = strict or answers
            rows.append(row)
            all_answers[rule] = answers
            print(json.dumps(row), file=sys.stderr, flush=True)
    finally:
        server.stop()
    print(table(rows))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"rows": rows, "answers": all_answers}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
