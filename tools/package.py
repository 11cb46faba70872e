"""Build the wheel and the source distribution, and try each in an otherwise empty environment: `make package`.

    python -m tools.package [FOLDER] [pip's options, such as --extra-index-url ...]

The two files are written to FOLDER (default: dist). Both are built without build isolation, by the pinned setuptools.
The wheel is built from the source distribution, so a file that is missing there is missing in the wheel, too. All
is built twice, and the wheels must have the same bytes. A bill of materials is written beside them (`tools.bill`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tools.audit import pins
from tools.bill import write_bill

ROOT = Path(__file__).parents[1]
_OLDEST_IN_ZIP = 315532800
SMALL = """
[run]
horizon = 20.0
[data]
source = "digits"
clients = 5
examples_per_client = 20
test_examples = 100
[model]
network = "logistic"
[training]
lr = 0.1
[fleet]
compute = { unit = "s/visit", speed = 2.0 }
link = "none"
estimates = "exact"
[strategy]
name = "fedavg"
"""


def main(arguments: Sequence[str]) -> None:
    """Build and try the package. Raises CalledProcessError or AssertionError if something does not work."""
    folder = Path(arguments[0]) if arguments and not arguments[0].startswith("-") else ROOT / "dist"
    pip_options = [each for each in arguments if Path(each) != folder]
    source, wheel = build(folder.resolve())
    bill = write_bill(ROOT / "requirements-image.lock", folder.resolve(), epoch())
    with tempfile.TemporaryDirectory(prefix="fedtempo-package-") as scratch:
        _, again = build(Path(scratch, "again"))
        assert again.read_bytes() == wheel.read_bytes(), f"{wheel}: two builds differ"
        environment = Path(scratch, "venv")
        venv.create(environment, with_pip=True)
        python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        constraints = ["--constraint", str(plain_constraints(Path(scratch)))]
        _call(python, "-m", "pip", "install", "--quiet", *pip_options, *constraints, str(wheel))
        try_out(python, Path(scratch, "from-wheel"))
        _call(python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", *pip_options, str(source))
        try_out(python, Path(scratch, "from-source"))
    print(f"{source}\n{wheel}\n{bill}\nboth packages install and run, and two builds of the wheel have the same bytes")


def epoch() -> int:
    """Return the time of the last commit, seconds since 1970, which all files in the wheel have; 1980 without git."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  git
    except (OSError, subprocess.CalledProcessError):
        return _OLDEST_IN_ZIP
    return int(said)


def plain_constraints(folder: Path) -> Path:
    """Write the releases of requirements.lock without hashes, because a wheel that was just built has none there."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    path = folder / "constraints.txt"
    path.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins(lock)), encoding="utf-8")
    return path


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source distribution and the wheel in `folder`, replacing old ones, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("fedtempo-*.tar.gz"), *folder.glob("fedtempo-*.whl")]:
        old.unlink()
    backend = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    _call(sys.executable, "-c", backend, str(folder), cwd=ROOT)
    (source,) = folder.glob("fedtempo-*.tar.gz")
    pip_wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    _call(sys.executable, *pip_wheel, str(source))
    (wheel,) = folder.glob("fedtempo-*.whl")
    return source, wheel


def try_out(python: Path, folder: Path) -> None:
    """Try the fedtempo of an environment outside the source tree: version, doctor, a small run, a plan, the demo."""
    folder.mkdir()
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    program = python.with_name("fedtempo")
    assert _call(program, "--version", cwd=folder).startswith("fedtempo ")
    where = _call(python, "-c", "import fedtempo; print(fedtempo.__file__)", cwd=folder).strip()
    assert Path(where).is_relative_to(python.parents[1]), f"{where} is not what was installed"
    assert json.loads(_call(program, "doctor", "--json", cwd=folder))["ok"]
    _call(program, "run", "small.toml", "--out", "out", cwd=folder)
    summary = json.loads((folder / "out/summary.json").read_text(encoding="utf-8"))
    assert summary["ended"] == "horizon", summary
    assert (folder / "out/report.html").is_file()
    _call(program, "new", "config", "fedavg", cwd=folder)
    _call(program, "plan", "fedavg.toml", cwd=folder)
    _call(program, "demo", "--quick", "--out", "demo", cwd=folder)
    comparison = json.loads((folder / "demo/comparison.json").read_text(encoding="utf-8"))
    assert len(comparison["strategies"]) == 4, comparison
    assert (folder / "demo/report.html").is_file()


def _call(*command: str | Path, cwd: Path | None = None) -> str:
    """Return what a program prints; if it fails, show its error output."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    clean["SOURCE_DATE_EPOCH"] = str(epoch())
    ended = subprocess.run(  # noqa: S603  this project's own programs, and pip
        [str(part) for part in command],
        cwd=cwd,
        env=clean,
        umask=0o022,  # the rights of files are part of a wheel
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        check=True,
    )
    return ended.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
