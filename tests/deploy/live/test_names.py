"""A name belongs to the key that was registered for it; another claim to it is refused and logged on both sides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtempo.deploy.live import joining
from fedtempo.deploy.live.joining import Admission, wait_for_clients
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.record import load_run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients, wait_until

IMPOSTOR = 103
OF_OTHERS = "client c2: its key was registered for mallory"
OF_ANOTHER = "client c2: the name was registered for another key"
SECOND = "client c2: another node has joined under this name"


def with_an_impostor(names: dict[int, str]) -> Loopback:
    """Three clients, and a node that calls itself as the last one. names: for which keys were registered."""
    clients = digits_clients(3)
    grid = Loopback([*clients, digits_clients(3)[2]])
    grid.names = names
    return grid


REGISTERED = {100: "c0", 101: "c1", 102: "c2"}
CASES: dict[str, tuple[dict[int, str], str]] = {
    "another name's key": ({**REGISTERED, IMPOSTOR: "mallory"}, OF_OTHERS),
    "a key without a name": (REGISTERED, OF_ANOTHER),
    "no keys": ({}, SECOND),
}


@pytest.mark.parametrize(("names", "reason"), CASES.values(), ids=CASES)
def test_a_name_is_not_given_to_another_before_the_run(
    names: dict[int, str], reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "_POLL_S", 0.01)
    grid, said = with_an_impostor(names), []
    # With keys, even who comes first has no claim.
    grid.online = {IMPOSTOR} if names else {102}

    def say(line: str) -> None:
        said.append(line)
        grid.online = {100, 101, 102, IMPOSTOR} if f"node {IMPOSTOR} rejected: {reason}" in said else {102, IMPOSTOR}

    joined = wait_for_clients(grid, 3, 30.0, Admission(), say=say)
    assert [client.node for client in joined] == [100, 101, 102]
    assert said.count(f"node {IMPOSTOR} rejected: {reason}") >= 1
    wait_until(lambda: f"the server rejects this client: {reason}" in caplog.text, 10.0)
    grid.close()


@pytest.mark.parametrize(("names", "reason"), CASES.values(), ids=CASES)
def test_a_name_is_not_given_to_another_during_the_run(
    names: dict[int, str], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = with_an_impostor(names)
    grid.online = {100, 101, 102}

    async def until(fed: Federation, what: Callable[[], bool]) -> None:
        end = fed.now + 30
        while not what() and fed.now < end:
            await fed.sleep_until(fed.now + 0.02)

    async def script(fed: Federation) -> None:
        fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model)))
        if names:  # even a client that is away keeps its name
            grid.online = {100, 101, IMPOSTOR}
        else:
            grid.online = {100, 101, 102, IMPOSTOR}
        await until(fed, lambda: f"the server rejects this client: {reason}" in caplog.text)
        if names:
            with pytest.raises(ClientUnavailable):
                await fed.train(fed.clients[2], fed.model)
        grid.online = {100, 101, 102, IMPOSTOR}
        await until(fed, lambda: bool(fed.forecast(fed.clients[2], fed.now, fed.now)))
        fed.commit((await fed.train(fed.clients[2], fed.model)).model)
        fed.commit(fed.model)

    deploy_to_folder(config(script), tmp_path / "run", grid)
    grid.close()
    trained: list[Any] = [call.node for call in grid.calls if call.kind == "train"]
    assert sorted(trained) == [100, 101, 102, 102]
    assert caplog.text.count(f"node {IMPOSTOR} rejected: {reason}") == 1
    assert caplog.text.count(f"the server rejects this client: {reason}") == 1
    assert load_run(tmp_path / "run").facts["client_names"] == ["c0", "c1", "c2"]
