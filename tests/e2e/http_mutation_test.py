"""Mutated bytes of HTTP requests against the real server: each answer is HTTP and no internal error, the connection ends, and
afterwards the known request answers its known text. (tests/fuzz/request_fuzz.cpp covers the bodies alone, faster.)"""

import random
import re
import socket
import time

import httpx
import pytest

SECONDS = 12
SEED = 20261130


def post(path, body, headers=""):
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()


SEEDS = [
    post("/completion", '{"prompt":"Hi","n_predict":2,"temperature":0}'),
    post("/completion", '{"prompt":["Hi",[1,2]],"stream":true,"n_predict":2,"stop":["x"],"logit_bias":[[1,-2.5]]}'),
    post("/v1/completions", '{"prompt":"Hi","max_tokens":2,"logprobs":2,"n":2}', "Connection: close\r\n"),
    post("/v1/chat/completions", '{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"tools":[{"type":"function","function":'
                                 '{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],"tool_choice":"required"}'),
    post("/v1/messages", '{"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":2}'),
    post("/v1/responses", '{"input":"x","max_output_tokens":2,"stream":true}'),
    post("/tokenize", '{"content":"a","with_pieces":true}', "Expect: 100-continue\r\n"),
    post("/apply-template", '{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}'),
    post("/slots/1?action=save", '{"filename":"../x"}', "Authorization: Bearer k\r\n"),
    b'POST /completion HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"n_predict":2,"p\r\n9\r\nrompt":"a\r\n2\r\n"}\r\n0\r\n\r\n',
    b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /props HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost\r\n\r\n",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"OPTIONS /any%41?x=%zz HTTP/1.1\r\nHost: x\r\nOrigin: a\r\nAccess-Control-Request-Headers: b\r\n\r\n",
]
PIECES = [b"\r\n", b"\r\n\r\n", b"\0", b"\xff", b"-1", b"99999999999999999999", b"1e999", b"null", b"[[[[[[[[", b'"', b"\\ud800", b"{", b"}",
          b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/9.9", b"%00", b"../", b" ", b":", b",", b"A" * 3000]


def mutated(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randrange(1, 20))
        kind = rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = rng.choice(PIECES)
        elif kind == 3:
            data[at:at] = data[at:end] * rng.randrange(1, 4)
        elif kind == 4:
            other = rng.choice(SEEDS)
            data[at:] = other[rng.randrange(len(other)):]
        elif kind == 5:
            del data[at:]
        else:
            data[at:end] = bytes(rng.randrange(256) for _ in range(end - at))
    return bytes(data)


@pytest.fixture(scope="module")
def small(binary, clean_env, smollm):
    from conftest import Server
    running = Server([str(binary), "serve", "--port", "0", "-m", str(smollm), "-c", "512", "-np", "2", "-n", "4"], clean_env).wait()
    yield running
    running.stop()


def exchange(url: httpx.URL, data: bytes, rng: random.Random) -> bytes:
    """Sends the bytes, in one piece or two, ends the sending side and reads until the server closes."""
    answer = b""
    with socket.create_connection((url.host, url.port)) as connection:
        connection.settimeout(20)  # above every limit that a silent client meets here
        try:
            cut = rng.randrange(len(data) + 1) if rng.random() < 0.3 else len(data)
            connection.sendall(data[:cut])
            connection.sendall(data[cut:])
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except (ConnectionError, BrokenPipeError):
            pass  # closed on us in the middle: an answer too
    return answer


def test_mutated_requests_get_answers_and_leave_the_server_as_it_was(small):
    known = {"prompt": "The capital of France is", "n_predict": 8, "temperature": 0}
    before = small.client.post("/completion", json=known).json()["content"]
    rng = random.Random(SEED)
    url = httpx.URL(small.url)
    end = time.monotonic() + SECONDS
    n, statuses = 0, {}
    while time.monotonic() < end:
        data = mutated(rng)
        answer = exchange(url, data, rng)
        n += 1
        if not answer:
            continue
        status = re.match(rb"HTTP/1\.[01] (\d\d\d) ", answer)
        assert status, (SEED, n, data, answer[:200])
        statuses[int(status[1])] = statuses.get(int(status[1]), 0) + 1
        assert int(status[1]) != 500, (SEED, n, data, answer[:500])
    assert n > 20 and statuses.get(400) and statuses.get(200), (n, statuses)
    assert small.client.post("/completion", json=known).json()["content"] == before
    assert not any(slot["is_processing"] for slot in small.client.get("/slots").json())
    # What a client sent must not act on the terminal that shows the log.
    assert not any(re.search("[\x00-\x08\x0e-\x1f\ufffd]", line) for line in small.log)
