"""The files of deploy/ parse: the unit under systemd's own check, the dashboard as JSON."""

import json
import shutil
import subprocess

import pytest

from conftest import ROOT


def test_the_unit_passes_systemds_check(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze isn't there")
    # The check wants the program to exist where the unit says.
    text = (ROOT / "deploy" / "foresay.service").read_text().replace("/opt/foresay/bin/foresay serve", "/bin/true")
    unit = tmp_path / "foresay.service"
    unit.write_text(text)
    run = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0 and not run.stderr.strip(), run.stderr


def test_the_dashboard_is_json_with_panels():
    files = list((ROOT / "deploy" / "grafana").rglob("*.json"))
    assert files
    for path in files:
        assert json.loads(path.read_text())["panels"]
