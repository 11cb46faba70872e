"""What clients kept when the global model was last committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedtempo.runtime.client_state import ClientState


class KeptAtCommit:
    """What clients kept at the last commit, with which the global model's evaluation uses them.

    Later visits change what clients keep before they change the model. Only what they replace is stored, until the next
    commit.
    """

    def __init__(self, version: Callable[[], int]) -> None:
        """version: returns the version of the global model."""
        self._version, self._since = version, -1
        self._replaced: dict[int, Any] = {}

    def replaced(self, owner: ClientState) -> None:
        """Note that what a client keeps is about to change."""
        self._begin()
        self._replaced.setdefault(owner.client.id, owner.kept)

    def of(self, states: Sequence[ClientState]) -> dict[int, Any]:
        """Return the locations of what clients kept, by client id, without those that kept nothing."""
        self._begin()
        kept = {owner.client.id: self._replaced.get(owner.client.id, owner.kept) for owner in states}
        return {client: location for client, location in kept.items() if location is not None}

    def _begin(self) -> None:
        if (version := self._version()) != self._since:
            self._replaced.clear()
            self._since = version
