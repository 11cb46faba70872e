"""Three clients on a grid in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedtempo.deploy.client.answers import Answers
from tests.deploy.live.loopback import Loopback, digits_clients


@pytest.fixture
def clients() -> list[Answers]:
    return digits_clients(3)


@pytest.fixture
def grid(clients: list[Answers]) -> Iterator[Loopback]:
    loopback = Loopback(clients)
    yield loopback
    loopback.close()
