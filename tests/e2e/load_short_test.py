"""Some seconds of tests/load/load_test.py: the tool works, and what it checks holds."""

import subprocess
import sys

from conftest import ROOT


def test_a_short_load_changes_no_answer_and_loses_no_slot(start_server, smollm):
    server = start_server("-m", smollm, "-c", "4096", "-np", "4", "--spec-type", "ngram-simple")
    command = [sys.executable, str(ROOT / "tests" / "load" / "load_test.py"), "--url", server.url, "--pid", str(server.process.pid),
               "--seconds", "18", "--rounds", "3", "--requests", "12", "--max-growth", "64"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "clients  tokens/s" in run.stdout
    assert server.process.poll() is None and server.client.get("/health").json() == {"status": "ok"}
