"""An environment for each peer, over the one that this runs in: `python -m benchmarks.peers.environments [NAME ...]`.

What a peer needs is pinned in its requirements.txt and lies in its .venv; everything else, PyTorch above all, is found
in the environment below. Peers that are there already, with the same pins, are left as they are.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PEERS = ("pfl", "fluke", "flgo", "flower", "simpy", "ortools")


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, whether it is there or not."""
    return HERE / peer / ".venv" / "bin" / "python"


def build(peer: str) -> bool:
    """Make a peer's environment; False where it was there. Raises CalledProcessError where pip fails."""
    requirements, folder = HERE / peer / "requirements.txt", HERE / peer / ".venv"
    below = sysconfig.get_path("purelib")
    made_of = f"{below}\n{requirements.read_text()}"
    ready = folder / ".ready"
    if ready.exists() and ready.read_text() == made_of:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    own = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    Path(own, "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python_of(peer)), "install", "--quiet", "--no-deps"]
    flags = shlex.split(os.environ.get("PIP_FLAGS", ""))
    subprocess.run([*pip, "--disable-pip-version-check", *flags, "-r", str(requirements)], check=True)  # noqa: S603
    ready.write_text(made_of)
    return True


def main(names: Sequence[str]) -> int:
    """Make them all, or those named; returns how many failed. What failed is said and does not keep others away."""
    failed = 0
    for peer in names or PEERS:
        try:
            print(f"{peer}: {'made' if build(peer) else 'there'}", flush=True)
        except (OSError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"{peer}: {error}", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
