"""Streams, in which a device's operations run one after another: a CUDA stream, or this thread.

Operations in a stream are asynchronous until a mark set after them is waited for. A recording (a CUDA graph) repeats
the operations of a function at little cost. Its tensors have the same addresses each time, so the function's inputs
must be tensors that persist, and tensors that it allocates are gone when it returns.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


class Mark(Protocol):
    """A point in a stream."""

    def query(self) -> bool:
        """Return whether all operations before it are done."""
        ...

    def synchronize(self) -> None:
        """Wait until all operations before it are done."""
        ...


class Stream(Protocol):
    """Operations that run one after another. device: of its tensors."""

    device: torch.device

    def active(self) -> AbstractContextManager[object]:
        """Run PyTorch's operations inside the block in this stream."""
        ...

    def sent(self, array: Array) -> Tensor:
        """Return a copy of `array` on the device. Call this and the following methods inside `active`."""
        ...

    def fetched(self, tensor: Tensor) -> Tensor:
        """Return a copy of `tensor` in main memory, complete once a mark set after it is passed."""
        ...

    def mark(self) -> Mark:
        """Set a mark after all operations so far."""
        ...

    def recorded(self, function: Callable[[], None]) -> Callable[[], None]:
        """Record the operations of `function` without executing them; return a function that repeats them.

        `function` must have been called in this stream before. Raises RuntimeError if it cannot be recorded.
        """
        ...


class _Passed:
    """A mark in a stream whose operations are synchronous."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Return immediately: everything is done."""


class HostStream:
    """This thread and main memory. A recording is the function itself."""

    device = torch.device("cpu")

    def active(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def sent(self, array: Array) -> Tensor:
        return torch.from_numpy(array.copy())

    def fetched(self, tensor: Tensor) -> Tensor:
        return tensor.clone()

    def mark(self) -> Mark:
        return _Passed()

    def recorded(self, function: Callable[[], None]) -> Callable[[], None]:
        return function


class CudaStream:
    """A CUDA stream with one memory pool for all its recordings, which never run at the same time.

    device: with its index. urgent: whether its work has priority over that of other streams.
    """

    def __init__(self, device: torch.device, *, urgent: bool = True) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]
        self._pool: Any = None
        self._keeper: torch.cuda.CUDAGraph | None = None

    def active(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self._stream)

    def sent(self, array: Array) -> Tensor:
        return torch.from_numpy(array).pin_memory().to(self.device, non_blocking=True)

    def fetched(self, tensor: Tensor) -> Tensor:
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor, non_blocking=True)

    def mark(self) -> Mark:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        return event

    def recorded(self, function: Callable[[], None]) -> Callable[[], None]:
        if self._keeper is None:
            self._pool = torch.cuda.graph_pool_handle()
            scratch = torch.zeros(1, device=self.device)
            self._keeper = self._graph(scratch.zero_)  # keeps the pool alive, which would end with its last graph
        return self._graph(function).replay

    def _graph(self, function: Callable[[], object]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            function()
        return graph


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: memory freed during a recording would become part of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
