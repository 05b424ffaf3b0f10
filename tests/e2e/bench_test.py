"""foresay bench: the report that scripts read, and the comparison with another program."""

import json
import shlex

import pytest


def report_of(text):
    report = json.loads(text)
    for key in ("model", "isa", "threads", "cost_curve", "prompt", "load_s", "peak_rss_bytes", "file_bytes", "plan_cache"):
        assert key in report, key
    assert [point["n"] for point in report["cost_curve"][:16]] == list(range(1, 17))
    assert report["cost_curve"][0]["ratio"] == 1
    assert all(point["ms"] > 0 for point in report["cost_curve"])
    assert report["prompt"][0]["n"] == 512 and report["prompt"][0]["tok_s"] > 0
    assert report["plan_cache"]["hits"] > report["plan_cache"]["misses"]
    return report


def test_report_goes_to_a_file_beside_the_table_with_depths_and_ratios(foresay, smollm, tmp_path):
    file = tmp_path / "report.json"
    # llama-bench's shape of rows: one token at 10 tokens/s, passes over 8 tokens at 80 tokens/s.
    rows = [{"n_prompt": 0, "n_gen": 16, "avg_ts": 10.0}, {"n_prompt": 8, "n_gen": 0, "avg_ts": 80.0}]
    other = "echo some line; echo " + shlex.quote(json.dumps(rows))
    done = foresay("bench", "-m", smollm, "-t", "2", "--depths", "0,64", "--json", file, "--against", other,
                   timeout=600)
    assert done.returncode == 0, done.stderr
    assert "t(n)/t(1)" in done.stdout and "other ms" in done.stdout
    report = report_of(file.read_text())
    assert [point["depth"] for point in report["depths"]] == [0, 64]
    against = {point["what"]: point for point in report["against"]}
    assert set(against) == {"t(1)", "t(8)"}
    for point in against.values():
        assert point["other_ms"] == pytest.approx(100.0)
        assert point["ratio"] == pytest.approx(point["ms"] / 100.0)


@pytest.mark.parametrize(
    "args, part",
    [
        (["--depths", "12,x"], "--depths"),
        (["--depths", "-1"], "--depths"),
        (["--against", "exit 3"], "exit code 3"),
        (["--against", "echo nothing"], "no JSON"),
        (["--json", "/no/such/folder/report.json"], "--json"),
    ],
)
def test_what_cannot_be_done_is_said(foresay, smollm, args, part):
    done = foresay("bench", "-m", smollm, "-t", "2", *args)
    assert done.returncode == 1
    assert part in done.stderr
