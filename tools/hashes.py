"""Write the hashes of all files of the pinned releases into the locks: `make hashes`.

    python -m tools.hashes UV LOCK ... [--wheel FILE ...]

UV is the path of uv, which asks the package index for the hashes. Versions stay as they are, and so do hashes that the
index does not have: those of PyTorch's CPU builds, which have an index of their own. --wheel adds the hash of a file,
such as one of these builds, to the lock that pins its release.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tools.audit import pins


def hashed(lock: str, fresh: str, wheels: Iterable[Path] = ()) -> str:
    """Return a lock with the hashes of `fresh`, its own, and those of wheels of releases that it pins.

    lock: with or without hashes. fresh: the same pins with hashes, as uv writes them.
    """
    comments = [line for line in lock.splitlines() if line.startswith("#")]
    known = {(pin.name, pin.version): pin.hashes for pin in pins(lock.splitlines())}
    of_wheels = [(*parse_wheel_filename(wheel.name)[:2], wheel) for wheel in wheels]
    lines = comments
    for pin in pins(fresh.splitlines()):
        built = {
            f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
            for name, version, wheel in of_wheels
            if name == pin.name and version.public == str(pin.version)
        }
        every = sorted({*pin.hashes, *known.get((pin.name, pin.version), ()), *built})
        lines.append(" \\\n    --hash=".join([f"{pin.name}=={pin.version}", *every]))
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    """Rewrite the locks. Raises CalledProcessError if uv fails."""
    parser = argparse.ArgumentParser(description="Write the hashes of all files of the pinned releases into the locks.")
    parser.add_argument("uv")
    parser.add_argument("locks", nargs="+", type=Path)
    parser.add_argument("--wheel", action="append", default=[], type=Path)
    asked = parser.parse_args(arguments)
    for lock in asked.locks:
        options = ["--no-deps", "--generate-hashes", "--no-header", "--no-annotate", "--no-config", "--quiet"]
        command = [asked.uv, "pip", "compile", *options, "--python-version", "3.11", str(lock)]
        fresh = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  uv, as asked
        lock.write_text(hashed(lock.read_text(encoding="utf-8"), fresh.stdout, asked.wheel), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
