"""A call that was sent twice has one answer: what is left of it is neither waited for nor sent again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fedtempo.deploy.live import transport
from fedtempo.deploy.live.event_log import OperationEnded
from fedtempo.deploy.live.messages import Call, Failure, Reply, Sender
from fedtempo.deploy.live.transport import Transport
from tests.deploy.live.loopback import wait_until


class Grid:
    """A grid whose replies come when the test gives them.

    pushed: names of the messages that were sent. knows: whether it knows the node.
    """

    def __init__(self) -> None:
        self.interruptions = 0
        self.knows = True
        self.pushed: list[str] = []
        self.replies: dict[str, Reply] = {}

    def node_ids(self) -> list[int]:
        return [1]

    def sender(self, node: int) -> Sender:
        return Sender(None, frozenset())

    def push(self, call: Call) -> str | None:
        self.pushed.append(f"new {len(self.pushed)}")
        return self.pushed[-1] if self.knows else None

    def pull(self, names: Mapping[str, int]) -> dict[str, Reply]:
        return {name: self.replies.pop(name) for name in names if name in self.replies}


@pytest.fixture
def grid() -> Grid:
    return Grid()


@pytest.fixture
def ends(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OperationEnded]]:
    """The ends of operations, of which number 7 is a call that an earlier process sent as "old", and sent again."""
    monkeypatch.setattr(transport, "_GRACE_S", 0.02)
    monkeypatch.setattr(transport, "_RETURN_S", 0.02)
    events: list[OperationEnded] = []

    def post(event: Any) -> None:
        if isinstance(event, OperationEnded):
            events.append(event)

    carrier = Transport(grid, post, lambda result: result, run="run", poll_s=0.01, poll_max_s=0.01, refresh_s=0.05)
    carrier.start()
    carrier.take_up(7, "old", Call(1, "train", {}, check=lambda reply: reply.content))
    wait_until(lambda: grid.pushed == ["new 0"])
    yield events
    carrier.close()


def test_an_answered_call_is_not_sent_again_after_an_interruption(grid: Grid, ends: list[OperationEnded]) -> None:
    grid.replies["new 0"] = Reply({"a": 1})
    wait_until(lambda: len(ends) == 1)
    grid.interruptions += 1
    time.sleep(0.3)
    assert grid.pushed == ["new 0"]
    grid.replies["old"] = Reply({"a": 2})
    time.sleep(0.1)
    assert [event.result.result for event in ends] == [{"a": 1}]


@pytest.mark.parametrize(("lost", "answered"), [("old", "new 0"), ("new 0", "old")])
def test_if_one_message_is_gone_the_other_is_waited_for(
    lost: str, answered: str, grid: Grid, ends: list[OperationEnded]
) -> None:
    grid.replies[lost] = Reply(failure=Failure("gone", "it expired"))
    time.sleep(0.2)
    assert ends == []
    grid.replies[answered] = Reply({"a": 1})
    wait_until(lambda: len(ends) == 1)
    assert ends[0].result.result == {"a": 1}
    assert grid.pushed == ["new 0"]


def test_a_call_to_a_node_that_is_unknown_by_now_has_ended(grid: Grid, ends: list[OperationEnded]) -> None:
    grid.knows = False
    grid.interruptions += 1
    wait_until(lambda: bool(ends))
    grid.interruptions += 1
    time.sleep(0.3)
    assert [event.result.failure.reason for event in ends] == ["its node is unknown"]
    assert grid.pushed == ["new 0", "new 1"]
