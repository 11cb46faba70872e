"""Devices: lookup by name, description for records, and out-of-memory errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from fedtempo.errors import ConfigError, RunError
from fedtempo.learning.numerics import fix_cublas_workspaces


def find_device(name: str) -> torch.device:
    """Return the device of this name, with its index if it is a CUDA device. Raises ConfigError if there is none."""
    device = torch.device(name)
    if device.type == "cpu":
        return device
    fix_cublas_workspaces()
    if not torch.cuda.is_available():
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            cause = "it finds no device"
        except (AssertionError, RuntimeError) as error:
            cause = str(error).strip().splitlines()[0]
        raise ConfigError(f"executor.device = {name!r}: PyTorch {torch.__version__} says: {cause}; use 'cpu'")
    count = torch.cuda.device_count()
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= count:
        raise ConfigError(f"executor.device = {name!r}: no such device; devices are numbered 0 to {count - 1}")
    return torch.device("cuda", index)


def described(device: torch.device) -> dict[str, Any]:
    """Return what results on this device depend on besides PyTorch's version."""
    if device.type == "cpu":
        return {"device": "cpu"}
    return {
        "device": torch.cuda.get_device_name(device),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
    }


@contextlib.contextmanager
def device_memory() -> Iterator[None]:
    """Raise RunError, in one line, if the device's memory runs out inside the block."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        cause = str(error).strip().splitlines()[0]
        raise RunError(f"out of GPU memory ({cause.rstrip('.')}): lower executor.streams") from error
