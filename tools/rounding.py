"""Check whether the switches of numeric libraries change how this process rounds.

    ATEN_CPU_CAPABILITY=default python -m tools.rounding

This repeats a computation in a process without the switches, in which the libraries choose their CPU instructions
themselves, and prints the libraries whose results differ. With --must-differ, the exit code on x86-64 is 1 if none
differs: the switches then have no effect, and tests that use them prove nothing.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys

import numpy as np
import torch

SWITCHES = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
)


def results() -> dict[str, str]:
    """Return a hash of the results of each library: PyTorch's own kernels, MKL, oneDNN, NumPy and OpenBLAS."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((256, 300))
    single = torch.from_numpy(x.astype(np.float32))
    kernels = torch.from_numpy(rng.standard_normal((16, 4, 3, 3)).astype(np.float32))
    images = torch.from_numpy(rng.standard_normal((8, 4, 20, 20)).astype(np.float32))
    found = {
        "PyTorch": torch.softmax(single, 1).numpy(),
        "MKL": (single @ single.T).numpy(),
        "oneDNN": torch.conv2d(images, kernels).numpy(),
        "NumPy": np.exp(x),
        "OpenBLAS": x @ x.T,
    }
    return {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for name, array in found.items()}


def main() -> int:
    if sys.argv[1:] == ["here"]:
        print(*results().values())
        return 0
    plain = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    answer = subprocess.run(
        [sys.executable, "-m", "tools.rounding", "here"], env=plain, capture_output=True, text=True, check=True
    )
    usual, here = answer.stdout.split(), results()
    differ = [name for (name, value), other in zip(here.items(), usual, strict=True) if value != other]
    print(f"rounding differs from the default in: {', '.join(differ) or 'nothing'} (of {', '.join(here)})")
    return int("--must-differ" in sys.argv and platform.machine() == "x86_64" and not differ)


if __name__ == "__main__":
    sys.exit(main())
