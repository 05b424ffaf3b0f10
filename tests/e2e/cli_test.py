"""The commands of the program as a user types them."""

import json
import re
import socket
import subprocess
import threading

import pytest


def test_version_and_help_go_to_standard_output(foresay):
    version = foresay("--version")
    assert version.returncode == 0 and version.stdout.startswith("foresay ") and version.stderr == ""
    text = foresay("--help")
    assert text.returncode == 0 and "--spec-draft-relaxed-top-n" in text.stdout and text.stderr == ""


@pytest.mark.parametrize("args, part", [
    ([], "no command"),
    (["--bogus"], "invalid argument: --bogus"),
    (["-m", "x", "--spec-draft-nmax", "3"], "Did you mean --spec-draft-n-max?"),
    (["-m", "x", "-c", "many"], 'error while handling argument "-c"'),
    (["-m", "x", "--grammar", "root ::= x"], "line 1, column 10: rule 'x' is not defined"),
    (["-m", "x", "-j", '{"type":"strin"}'], "unknown type 'strin'"),
    (["-m", "x", "--draft-maxx", "3"], "Did you mean --draft-max?"),
    (["runn"], "Did you mean run?"),
])
def test_bad_command_lines_end_with_1_and_a_message(foresay, args, part):
    result = foresay(*args)
    assert result.returncode == 1
    assert part in result.stderr
    assert result.stdout == ""


def test_bad_variable_is_named(foresay):
    result = foresay("-m", "x", env={"LLAMA_ARG_CTX_SIZE": "many"})
    assert result.returncode == 1
    assert 'error while handling environment variable "LLAMA_ARG_CTX_SIZE"' in result.stderr


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["run", "-p", "a"], ["tokenize", "-p", "a"], ["inspect"]])
def test_missing_model_file_is_an_error_that_names_it(foresay, command):
    result = foresay(*command, "-m", "/nonexistent/model.gguf")
    assert result.returncode == 1
    assert "/nonexistent/model.gguf" in result.stderr


def test_a_text_that_cannot_be_written_is_an_error(binary, clean_env, smollm):
    with open("/dev/full", "w") as full:
        result = subprocess.run([str(binary), "run", "-m", str(smollm), "-p", "a", "-n", "2"], stdout=full, stderr=subprocess.PIPE,
                                text=True, env=clean_env)
    assert result.returncode == 1 and "standard output" in result.stderr


def test_inspect_tells_what_the_file_holds(foresay, smollm):
    result = foresay("inspect", smollm)
    assert result.returncode == 0
    assert re.search(r"^architecture +llama$", result.stdout, re.M)
    assert "token_embd.weight" in result.stdout
    assert "Foresay can run this file." in result.stdout


def test_inspect_json_agrees_with_the_gguf_package(foresay, smollm):
    gguf = pytest.importorskip("gguf")
    report = json.loads(foresay("inspect", "--json", smollm).stdout)
    reader = gguf.GGUFReader(smollm)
    assert report["supported"] is True and report["drafter"] is None
    assert [t["name"] for t in report["tensors"]] == [t.name for t in reader.tensors]
    assert [t["shape"] for t in report["tensors"]] == [[int(n) for n in t.shape] for t in reader.tensors]
    assert [t["bytes"] for t in report["tensors"]] == [int(t.n_bytes) for t in reader.tensors]
    assert report["n_params"] == sum(int(t.n_elements) for t in reader.tensors)
    assert set(report["metadata"]) == {k for k in reader.fields if not k.startswith("GGUF.")}


def test_inspect_and_the_log_name_the_kernels_of_each_weight(foresay, smollm):
    tensors = {t["name"]: t for t in json.loads(foresay("inspect", "--json", "--cpu-isa", "avx2", smollm).stdout)["tensors"]}
    assert tensors["blk.0.ffn_up.weight"]["path"] == "int8 dots over tiles (avx2)"
    assert tensors["token_embd.weight"]["path"] == "int8 dots over tiles (avx2)"  # tied: it is the head too
    assert tensors["blk.0.attn_norm.weight"]["path"] == "plain"
    assert "packed in each pass" in foresay("inspect", "--no-repack", smollm).stdout
    log = foresay("run", "-m", smollm, "-p", "a", "-n", "1", "--cpu-isa", "avx2").stderr
    assert re.search(r"weights: .*\d+ Q4_1: int8 dots over tiles \(avx2\)", log)


def test_inspect_refuses_a_file_that_is_no_gguf(foresay, tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("not a model at all, but long enough for a header")
    result = foresay("inspect", path)
    assert result.returncode == 1 and str(path) in result.stderr


def test_tokenize_gives_ids_and_pieces(foresay, smollm):
    ids = foresay("tokenize", "-m", smollm, "-p", "Hello world", "--ids")
    assert ids.returncode == 0
    parsed = json.loads(ids.stdout)
    assert parsed and all(isinstance(i, int) for i in parsed)
    pieces = json.loads(foresay("tokenize", "-m", smollm, "-p", "Hello world", "--json").stdout)
    assert [p["id"] for p in pieces] == parsed
    assert "".join(p["piece"] for p in pieces).endswith("Hello world")


def test_tokenize_takes_special_tokens_as_text_on_request(foresay, smollm):
    args = ["tokenize", "-m", smollm, "--ids", "--no-bos", "-p", "<|im_end|>"]
    assert len(json.loads(foresay(*args).stdout)) == 1
    assert len(json.loads(foresay(*args, "--no-parse-special").stdout)) > 1


def test_tokenize_reads_standard_input_without_escapes(foresay, smollm):
    by_file = foresay("tokenize", "-m", smollm, "--ids", "-f", "-", stdin="a\\nb")
    by_flag = foresay("tokenize", "-m", smollm, "--ids", "-p", "a\\nb", "--no-escape")
    assert by_file.stdout == by_flag.stdout != ""


def test_run_prints_text_and_ends_with_figures(foresay, smollm):
    result = foresay("run", "-m", smollm, "-p", "The capital of France is", "-n", "8", "--temp", "0")
    assert result.returncode == 0
    assert result.stdout.strip()
    assert re.search(r"^prompt \d+ tokens [\d.]+ tok/s \| text 8 tokens [\d.]+ tok/s$", result.stderr.splitlines()[-1])


def test_run_with_a_twin_drafter_gives_the_plain_text(foresay, smollm):
    result = foresay("run", "-m", smollm, "--spec-draft-model", smollm, "-p", "Once upon a time", "-n", "24", "--temp", "0",
                     "--compare-plain", "--no-spec-draft-adaptive", "--spec-draft-vocab", "all")
    assert result.returncode == 0
    last = result.stderr.splitlines()[-1]
    assert "| acceptance 1.000" in last
    assert re.search(r"\| plain [\d.]+ tok/s, speed-up [\d.]+x, same text$", last)


def test_without_repacking_the_text_is_the_same(foresay, smollm):
    args = ("run", "-m", smollm, "-p", "The sky is", "-n", "6", "--temp", "0")
    repacked, plain = foresay(*args), foresay(*args, "--no-repack")
    assert repacked.returncode == 0 and plain.returncode == 0, plain.stderr
    assert plain.stdout == repacked.stdout != ""
    assert "--no-repack" in plain.stderr


def test_options_without_effect_are_said_once(foresay, smollm):
    result = foresay("run", "-m", smollm, "-p", "a", "-n", "2", "-ngl", "99", "--spec-draft-ngl", "99")
    assert result.returncode == 0
    assert result.stderr.count("no GPU backend is built in") == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_seed_command_line_serves_and_answers(binary, clean_env, smollm):
    """The seed guide's command line, without the word `serve`, only with files and port of this test."""
    import httpx

    port = free_port()
    command = [
        str(binary), "--model", str(smollm), "--port", str(port), "--host", "127.0.0.1", "--no-webui", "--offline", "-c", "1024",
        "-np", "1", "--log-verbosity", "3", "--no-log-prefix", "--no-log-timestamps", "--no-jinja", "--chat-template", "chatml",
        "--spec-type", "draft-simple", "--spec-draft-n-max", "4", "--spec-draft-relaxed-top-n", "3",
        "--spec-draft-backend-sampling", "--spec-draft-model", str(smollm), "-ngl", "99", "--spec-draft-ngl", "99",
        "--flash-attn", "auto", "-b", "512", "-ub", "128", "--context-shift", "--keep", "4",
        "--no-spec-draft-adaptive"]  # a twin doesn't pay: left to itself the server would soon draft nothing
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean_env)
    try:
        log = []
        for line in process.stderr:
            log.append(line)
            if "listening on" in line:
                break
        else:
            pytest.fail("".join(log))
        drain = threading.Thread(target=lambda: log.extend(process.stderr), daemon=True)
        drain.start()
        answer = httpx.post(f"http://127.0.0.1:{port}/completion", json={"prompt": "Hello", "n_predict": 8, "temperature": 0},
                            timeout=120)
        assert answer.status_code == 200
        assert answer.json()["tokens_predicted"] == 8
        process.terminate()
        assert process.wait(timeout=10) == 0
        drain.join(timeout=10)
        assert "draft acceptance = " in "".join(log)
    finally:
        process.kill()
        process.wait()


def test_server_fixture_serves(server):
    assert server.client.get("/health").json() == {"status": "ok"}
