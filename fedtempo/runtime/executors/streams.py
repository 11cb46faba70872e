"""Where an executor's operations run one after the other, each in a lane of its own: a CUDA stream, or this thread.

Nothing that is asked for in a lane is waited for until its mark is. A recording is what a function asked for, done
again at little cost: a CUDA graph. Its tensors are at the same addresses each time, so the function's inputs must be
tensors that stay, and what it allocates is gone when it returns.
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
    """A place in a lane."""

    def query(self) -> bool:
        """Whether all before it is done."""
        ...

    def synchronize(self) -> None:
        """Wait until it is."""
        ...


class Lane(Protocol):
    """One after the other. device: where its tensors lie."""

    device: torch.device

    def active(self) -> AbstractContextManager[object]:
        """What PyTorch is asked for within this context is done in this lane."""
        ...

    def sent(self, array: Array) -> Tensor:
        """A copy of `array` on the device; to be called within `active`, as all that follows."""
        ...

    def fetched(self, tensor: Tensor) -> Tensor:
        """A copy of `tensor` in main memory, which is whole once a mark set after it is passed."""
        ...

    def mark(self) -> Mark: ...

    def recorded(self, function: Callable[[], None]) -> Callable[[], None]:
        """What `function` asks for, to be done again and again; now nothing is done.

        `function` was called in this lane before. Raises RuntimeError where it asks for what cannot be recorded.
        """
        ...


class _Passed:
    """A mark in a lane in which everything is done at once."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """All is done."""


class HostLane:
    """This thread and main memory: a recording is the function itself."""

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


class CudaLane:
    """A CUDA stream, with one pool of memory for all its recordings: they never run at the same time.

    device: with its index. urgent: its work goes before that of lanes that are not.
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
            place = torch.zeros(1, device=self.device)
            self._keeper = self._graph(
                place.zero_
            )  # a pool ends with the last graph in it, and could not be used again
        return self._graph(function).replay

    def _graph(self, function: Callable[[], object]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            function()
        return graph


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Memory of another operation that is freed while a stream records would become part of the recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
