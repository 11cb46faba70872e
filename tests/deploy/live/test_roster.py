"""Nodes that join, leave and return, and names that cannot be taken over."""

from __future__ import annotations

import asyncio

import pytest

from fedtempo.deploy.live.roster import Description, Roster, as_clients
from fedtempo.errors import ConfigError
from fedtempo.federation import Client
from fedtempo.version import PROTOCOL


def description(name: str, num_examples: int = 10) -> Description:
    return Description(name, num_examples, None, False, (1, 8, 8))


def roster() -> tuple[Roster, tuple[Client, ...]]:
    clients = as_clients([description("a"), description("b")])
    return Roster(clients, [1, 2]), clients


def test_clients_are_numbered_in_natural_order_of_their_names() -> None:
    clients = as_clients(description(name) for name in ("c10", "c2", "b", "c1"))
    assert [client.name for client in clients] == ["b", "c1", "c2", "c10"]
    assert [client.id for client in clients] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "spoilt", [{"protocol": 0}, {"num_examples": 0}, {"num_examples": "x"}, {"label_histogram": 3}]
)
def test_an_unusable_description_is_rejected(spoilt: dict[str, object]) -> None:
    good = {
        "protocol": PROTOCOL,
        "name": "a",
        "num_examples": 3,
        "label_histogram": [1, 2],
        "shares_examples": "yes",
        "input_shape": [4],
    }
    read = Description.read(good)
    assert read.label_histogram == (1, 2)
    assert read.shares_examples is False  # only a plain true is a consent
    with pytest.raises(ConfigError):
        Description.read({**good, **spoilt})


def test_a_client_can_leave_and_return() -> None:
    async def main() -> None:
        members, (a, b) = roster()
        assert members.update([1]) == []
        assert (members.node(a), members.node(b)) == (1, None)
        waiting = asyncio.create_task(members.present(b, 5.0))
        await asyncio.sleep(0)
        members.update([1, 2])
        assert await waiting == 2
        members.update([1])
        assert await members.present(b, 0.01) is None

    asyncio.run(main())


def test_an_unresponsive_client_is_away_until_it_answers_or_returns() -> None:
    async def main() -> None:
        members, (a, b) = roster()
        for speaks in (lambda: members.mark_responsive(a), lambda: members.introduce(1, description("a"))):
            members.mark_unresponsive(a)
            assert members.node(a) is None
            assert members.update([1, 2]) == [1]
            assert members.node(a) is None
            speaks()
            assert members.node(a) == 1
            assert members.update([1, 2]) == []
        members.mark_unresponsive(b)
        members.update([1])
        members.update([1, 2])
        assert members.node(b) == 2

    asyncio.run(main())


def test_a_new_node_takes_over_a_client_only_if_it_is_away() -> None:
    async def main() -> None:
        members, (a, _) = roster()
        assert members.update([1, 2, 9]) == [9]
        assert members.introduce(9, description("a")) == (None, "client a: another node has joined under this name")
        assert members.node(a) == 1
        assert members.update([1, 2, 9]) == [9]  # described again, because the client may be away by then
        members.mark_unresponsive(a)
        assert members.introduce(9, description("b")).objection == "client b: another node has joined under this name"
        objection = "client a: it has 11 examples; the run began with 10"
        assert members.introduce(9, description("a", num_examples=11)) == (None, objection)
        assert members.update([1, 2, 9]) == [1]  # 9 belongs to another client
        assert members.update([1, 2, 9, 7]) == [1, 7]
        assert members.introduce(7, description("a")) == (1, None)
        assert members.node(a) == 7

    asyncio.run(main())
