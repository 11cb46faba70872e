"""Settings of PyTorch that affect bits (threads, denormal numbers, random state), set temporarily."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.utils.deterministic


@contextmanager
def fixed_numerics() -> Iterator[None]:
    """Compute with one thread and flush denormal numbers to zero: the same arithmetic in every process.

    Sums are split by thread count, so results would depend on it; and a second thread on a busy machine costs far more
    than it gains. Denormals slow training by an order of magnitude and do not matter to results.

    An exception that a signal's handler raises may come between two instructions of a `with` statement, whose end is
    then not carried out. So autograd and autocast are afterwards as they were, too.
    """
    threads = torch.get_num_threads()
    grad, autocast = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    flushes = _flushes_denormals()
    if threads != 1:
        torch.set_num_threads(1)
    if not flushes:
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_autocast_enabled("cpu", autocast)
        if threads != 1:
            torch.set_num_threads(threads)
        if not flushes:
            torch.set_flush_denormal(False)


@contextmanager
def fixed_device_numerics() -> Iterator[None]:
    """Apply `fixed_numerics`, and use full single precision and deterministic sums on CUDA devices.

    Only deterministic algorithms of PyTorch and cuDNN are used, chosen by rule and not by benchmark; products are not
    rounded to TF32. An operation without a deterministic algorithm warns.
    """
    settings: Any = torch.utils.deterministic
    deterministic, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fills, precision = settings.fill_uninitialized_memory, torch.get_float32_matmul_precision()
    with ExitStack() as stack:
        stack.enter_context(fixed_numerics())
        stack.enter_context(
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
        )
        stack.enter_context(warnings.catch_warnings())
        # An LSTM's weights are pieces of the model's vector, which cuDNN copies together at each step.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        torch.use_deterministic_algorithms(True, warn_only=True)
        settings.fill_uninitialized_memory = False  # it costs a launch for each tensor
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
            settings.fill_uninitialized_memory = fills
            torch.use_deterministic_algorithms(deterministic, warn_only=warns)


def fix_cublas_workspaces() -> None:
    """Set the workspaces of cuBLAS, which otherwise may sum differently on different streams.

    Call it before CUDA is first used.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def torch_seed(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed PyTorch's generator of a device (dropout, initial weights), and restore its state afterwards.

    device: default: the CPU.
    """
    if device is None or device.type == "cpu":
        generator = torch.default_generator
    else:
        generator = torch.cuda.default_generators[device.index]
    state = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(state)


def _flushes_denormals() -> bool:
    """Return whether denormals are flushed. PyTorch cannot report it, but the setting applies to Python floats too."""
    half_of_smallest_normal = sys.float_info.min / 2
    return half_of_smallest_normal == 0.0
