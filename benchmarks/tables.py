"""Loading large CSV files: time relative to `pandas.read_csv`, and memory relative to the file.

Two files: floats with a column of text, and pixels, whose cells have hardly two characters. Each is read in a process
of its own, turn by turn; imports are not timed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, figure, interleaved, ratios
from benchmarks.figures import table as printed
from benchmarks.peers.protocol import ROOT

MOST_TIME, MOST_MEMORY = 2.0, 3.0
"""Gates: seconds relative to pandas, and bytes of memory relative to the file."""

_ROWS = 5_000


def floats(rng: np.random.Generator) -> str:
    """Return rows of 20 floats with five decimals, a ward and a label."""
    numbers = rng.normal(size=(_ROWS, 20)).tolist()
    others = zip(numbers, rng.choice(list("abcde"), _ROWS).tolist(), rng.integers(2, size=_ROWS).tolist())
    return "".join(",".join(f"{x:.5f}" for x in row) + f",{ward},{label}\n" for row, ward, label in others)


def pixels(rng: np.random.Generator) -> str:
    """Return rows of 784 pixels, four of five of them 0, and a label."""
    size = (_ROWS // 20, 784)
    values = np.where(rng.random(size) < 0.8, 0, rng.integers(256, size=size)).tolist()
    labels = rng.integers(10, size=len(values)).tolist()
    return "".join(",".join(map(str, row)) + f",{label}\n" for row, label in zip(values, labels))


FILES: Mapping[str, tuple[list[str], Callable[[np.random.Generator], str]]] = {
    "floats": ([*(f"x{i}" for i in range(20)), "ward", "label"], floats),
    "pixels": ([*(f"p{i}" for i in range(784)), "label"], pixels),
}


def write(path: Path, kind: str, size: int) -> None:
    """Write a file of at least this many bytes."""
    header, rows = FILES[kind]
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(header) + "\n")
        while file.tell() < size:
            file.write(rows(rng))


def peak_bytes() -> int:
    """Return the most memory that this process has had (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def read(how: str, path: str) -> None:
    """Read a file and print seconds and bytes of memory that this took."""
    load: Callable[[str], object]
    if how == "pandas":
        from pandas import read_csv

        load = read_csv
    else:
        from pyarrow import compute, csv, types  # noqa: F401  not part of what is measured

        from fedtempo.data.tables import table

        load = table
    before, began = peak_bytes(), time.perf_counter()
    data = load(path)
    took = time.perf_counter() - began
    print(took, peak_bytes() - before, type(data).__name__)


def measured(how: str, path: Path, peaks: list[float]) -> float:
    """Return the seconds of `read` in a new process, and add its memory, relative to the file, to `peaks`."""
    command = [sys.executable, "-m", "benchmarks.tables", "--read", how, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout  # noqa: S603
    seconds, peak, _ = output.split()
    peaks.append(float(peak) / path.stat().st_size)
    return float(seconds)


def figures(repetitions: int = 5, size: int = 200 * 2**20) -> list[Figure]:
    """Return time and memory of each file. size: of a file, bytes."""
    made = []
    note = f"file of {size / 2**20:.0f} MiB"
    with tempfile.TemporaryDirectory() as folder:
        for kind in FILES:
            path = Path(folder, f"{kind}.csv")
            write(path, kind, size)
            peaks: dict[str, list[float]] = {"pandas": [], "fedtempo": []}
            ways = {how: partial(measured, how, path, peaks[how]) for how in peaks}
            seconds = interleaved(ways, repetitions)
            to_pandas = ratios(seconds["fedtempo"], seconds["pandas"])
            made += [
                figure(f"table_{kind}_vs_pandas", to_pandas, "x", MOST_TIME, lower=True, note=note),
                figure(f"table_{kind}_memory", peaks["fedtempo"][1:], "x file", MOST_MEMORY, lower=True, note=note),
            ]
            path.unlink()
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure how large CSV files are loaded.")
    parser.add_argument("--read", nargs=2, metavar=("HOW", "FILE"), help="read one file with pandas or fedtempo")
    parser.add_argument("--mib", type=int, default=200, help="size of a file, MiB (default: 200)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns (default: 5)")
    asked = parser.parse_args()
    if asked.read:
        read(*asked.read)
    else:
        print(printed(figures(asked.repetitions, asked.mib * 2**20)))
