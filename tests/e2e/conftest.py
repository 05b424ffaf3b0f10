"""Fixtures of the end-to-end tests: the built program, the small models, a running server.

FORESAY_BINARY   the program; default build/release/foresay
FORESAY_MODELS   the models' folder; default ~/.cache/foresay/models

A missing model is a skip with its reason; a missing program is an error.
"""

import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Callable, Iterator, List, Optional

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
LOAD_SECONDS = 120  # most a small model may take to load on a busy two-core machine


@pytest.fixture(scope="session")
def binary() -> Path:
    path = Path(os.environ.get("FORESAY_BINARY", ROOT / "build" / "release" / "foresay"))
    assert path.exists(), f"{path} isn't built: cmake --preset release && cmake --build --preset release"
    return path


def models_dir() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("FORESAY_MODELS") or cache / "foresay" / "models")


@pytest.fixture(scope="session")
def model() -> Callable[[str], Path]:
    """model("smollm2-135m-q4_1") is the file's path; skips the test when it isn't there."""

    def find(name: str) -> Path:
        path = models_dir() / f"{name}.gguf"
        if not path.exists():
            pytest.skip(f"{path} isn't there: tools/fetch_models.py {name}")
        return path

    return find


@pytest.fixture(scope="session")
def smollm(model) -> Path:
    return model("smollm2-135m-q4_1")


@pytest.fixture(scope="session")
def clean_env() -> dict:
    """The environment without variables that set flags: a developer's own must not change what is tested."""
    kept = {"FORESAY_MODELS", "FORESAY_SHARED", "FORESAY_BINARY"}
    return {k: v for k, v in os.environ.items() if not k.startswith(("LLAMA_", "FORESAY_")) or k in kept}


@pytest.fixture(scope="session")
def foresay(binary, clean_env) -> Callable[..., subprocess.CompletedProcess]:
    """Runs the program to its end: foresay("inspect", path). Extra environment with env={...}."""

    def call(*args, env: Optional[dict] = None, timeout: float = 120, stdin: str = "") -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(binary), *map(str, args)], capture_output=True, text=True, timeout=timeout, input=stdin,
            env={**clean_env, **(env or {})}, check=False)

    return call


class Server:
    """A `foresay serve` process. url, client, log (lines so far), process."""

    def __init__(self, command: List[str], env: dict):
        self.log: List[str] = []
        self.url = ""
        self._listening = threading.Event()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                        errors="replace", env=env)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            found = re.search(r"listening on (http://\S+)", line)
            if found and not self.url:
                self.url = found.group(1)
                self._listening.set()
        self._listening.set()  # the end of the log: whoever waits should look

    def wait(self) -> "Server":
        """Until it serves. The line is the event: no polling, no sleeping."""
        assert self._listening.wait(LOAD_SECONDS), "no 'listening on' line:\n" + "\n".join(self.log)
        assert self.url, f"ended with {self.process.wait()}:\n" + "\n".join(self.log)
        self.client = httpx.Client(base_url=self.url, timeout=120)
        return self

    def stop(self) -> int:
        """SIGTERM; the exit code. Kills (and fails) what doesn't end within 10 s."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self._reader.join(timeout=5)
            if hasattr(self, "client"):
                self.client.close()
        return code


@pytest.fixture
def start_server(binary, clean_env) -> Iterator[Callable[..., Server]]:
    """start_server("-m", path, "-np", "2") is a serving Server on a free port; all are stopped after the test."""
    started: List[Server] = []

    def start(*args, env: Optional[dict] = None) -> Server:
        command = [str(binary), "serve", "--port", "0", *map(str, args)]
        server = Server(command, {**clean_env, **(env or {})})
        started.append(server)
        return server.wait()

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def server(binary, clean_env, smollm) -> Iterator[Server]:
    """One server with SmolLM2 for the tests of a module that don't care how it was started."""
    command = [str(binary), "serve", "--port", "0", "-m", str(smollm), "-c", "2048", "-np", "2"]
    running = Server(command, clean_env).wait()
    yield running
    running.stop()
