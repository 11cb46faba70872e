"""States of clients: in memory up to a bound, beyond it in files, which disappear with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedtempo.errors import RunError
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.networks import Mlp
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Carried, Executor
from fedtempo.runtime.executors import states as stored
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.executors.states import States, received


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "IN_MEMORY", 100)
    monkeypatch.setattr(stored, "SMALL", 50)


def files(states: States) -> list[str]:
    return sorted(os.listdir(states._folder)) if states._folder else []


def test_states_beyond_the_bound_are_in_files_until_they_are_gone() -> None:
    states = States()
    kept = [states.add(bytes([i]) * 40) for i in range(4)]
    assert states.in_memory == 80
    assert files(states) == ["3", "4"]
    assert [state.read() for state in kept] == [bytes([i]) * 40 for i in range(4)]
    del kept[2], kept[0]
    assert files(states) == ["4"]
    assert states.in_memory == 40
    folder = Path(str(states._folder))
    states.close()
    assert not folder.exists()
    with pytest.raises(RunError, match=r"/4: a client's state could not be read: No such file"):
        kept[1].read()


def test_another_process_gets_small_states_themselves_and_large_ones_as_files() -> None:
    states = States()
    small, large = states.add(b"s" * 50), states.add(b"l" * 51)
    assert states.portable(None) is None
    assert states.portable(small) == b"s" * 50
    path = states.portable(large)
    assert isinstance(path, str)
    assert received(path) == large.read() == b"l" * 51
    assert received(b"s") == b"s"
    assert received(None) is None
    assert states.in_memory == 50
    states.close()


def chain(executor: Executor) -> list[bytes]:
    """Let two clients train three times with a local layer; return what they keep."""
    kept = [None, None]
    for visit in (1, 2, 3):
        visits = [executor.train(executor.initial(), i, visit, Training(), Carried(kept[i])) for i in (0, 1)]
        kept = [visit.result().state for visit in visits]
        assert [visit.result().state for visit in visits] == kept
    return [executor.state(state) for state in kept]


@pytest.mark.parametrize("small", [0, 10**6], ids=["by file", "through pipes"])
@pytest.mark.parametrize("in_memory", [0, 10**6], ids=["on disk", "in memory"])
def test_bits_do_not_depend_on_where_states_are(small: int, in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "IN_MEMORY", in_memory)
    monkeypatch.setattr(stored, "SMALL", small)
    monkeypatch.setattr("fedtempo.runtime.executors.worker.SMALL", small)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 6)).astype(np.float32), rng.integers(0, 3, 20)
    clients = [np.arange(10), np.arange(10, 20)]
    job = Job(Mlp((4,)), 3, x, y, clients, x, y, seed=1, exchange=Exchange(local=("3.*",)))
    with Inline(job) as inline, Processes(job, 2, "fork") as processes:
        assert chain(inline) == chain(processes)
        assert inline._states.in_memory == processes.states.in_memory == 0  # nothing refers to a state any more
