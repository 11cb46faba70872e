"""CudaStream's use of CUDA streams and graphs, tested with stand-ins because this machine may have no GPU."""

import gc
from contextlib import contextmanager

import pytest
import torch

from fedtempo.runtime.executors.streams import CudaStream, HostStream


class Cuda:
    """Stand-in for torch.cuda; `log` holds the calls in order."""

    def __init__(self):
        self.log, self.streams, self.pools = [], 0, 0

    def Stream(self, device, priority):
        self.streams += 1
        self.log.append(("stream", self.streams, device, priority))
        return self.streams

    def stream(self, stream):
        @contextmanager
        def active():
            self.log.append(("enter", stream))
            yield
            self.log.append(("leave", stream))

        return active()

    def graph_pool_handle(self):
        self.pools += 1
        return f"pool {self.pools}"

    def CUDAGraph(self):
        cuda, number = self, sum(entry[0] == "graph" for entry in self.log) + 1

        class Graph:
            def replay(self):
                cuda.log.append(("replay", number))

        self.log.append(("graph", number))
        return Graph()

    @contextmanager
    def graph(self, graph, pool, stream):
        self.log.append(("capture", pool, stream))
        yield
        self.log.append(("captured", pool, stream))

    def Event(self):
        cuda = self

        class Event:
            def record(self, stream):
                cuda.log.append(("mark", stream))

        return Event()


@pytest.fixture
def cuda(monkeypatch):
    stand_in = Cuda()
    for name in ("Stream", "stream", "graph_pool_handle", "CUDAGraph", "graph", "Event"):
        monkeypatch.setattr(torch.cuda, name, getattr(stand_in, name))
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *shape, device: zeros(*shape))
    return stand_in


DEVICE = torch.device("cuda", 1)


def test_a_lane_records_in_its_stream_and_pool_and_keeps_the_pool(cuda):
    streams = [CudaStream(DEVICE), CudaStream(DEVICE, urgent=False)]
    assert cuda.log == [("stream", 1, DEVICE, -1), ("stream", 2, DEVICE, 0)]
    cuda.log.clear()
    repeats = [streams[0].recorded(lambda name=name: cuda.log.append((name, gc.isenabled()))) for name in "ab"]
    assert gc.isenabled()
    assert cuda.log == [
        ("graph", 1),
        ("capture", "pool 1", 1),  # keeps the pool alive
        ("captured", "pool 1", 1),
        ("graph", 2),
        ("capture", "pool 1", 1),
        ("a", False),
        ("captured", "pool 1", 1),
        ("graph", 3),
        ("capture", "pool 1", 1),
        ("b", False),
        ("captured", "pool 1", 1),
    ]
    cuda.log.clear()
    for repeat in (*repeats, repeats[0]):
        repeat()
    assert cuda.log == [("replay", 2), ("replay", 3), ("replay", 2)]
    cuda.log.clear()
    streams[1].recorded(lambda: None)
    assert {entry[1:] for entry in cuda.log if entry[0] == "capture"} == {("pool 2", 2)}


def test_work_and_marks_are_in_the_cuda_stream(cuda):
    stream = CudaStream(DEVICE)
    cuda.log.clear()
    with stream.active():
        stream.mark()
    assert cuda.log == [("enter", 1), ("mark", 1), ("leave", 1)]


def test_tensors_sent_or_fetched_on_the_host_are_copies():
    stream = HostStream()
    array = torch.arange(3).numpy()
    sent = stream.sent(array)
    fetched = stream.fetched(sent)
    array[0], sent[1] = 7, 8
    assert (sent.tolist(), fetched.tolist()) == ([0, 8, 2], [0, 1, 2])
    assert stream.mark().query()
