"""Clients that reject requests: how long they are left alone, and which lines the log has about them."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedtempo.federation import Client

_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 60.0
"""Pause after a client's first rejection, which doubles with each further one, and the longest pause, seconds."""

_MOST_REASONS = 10
"""Reasons of one client that are logged."""


@dataclass
class _Refused:
    in_a_row: int = 0
    until: float = 0.0
    by_reason: dict[str, int] = field(default_factory=dict)


class Refusals:
    """What clients rejected in one run."""

    def __init__(self) -> None:
        self._of: dict[int, _Refused] = {}

    def add(self, client: Client, reason: str, now: float) -> str | None:
        """Note a rejection; return the line for the log, if it is a new reason, or its 10th, 100th, ... time."""
        refused = self._of.setdefault(client.id, _Refused())
        refused.until = now + min(_LONGEST_PAUSE_S, _PAUSE_S * 2.0 ** min(refused.in_a_row, 10))
        refused.in_a_row += 1
        if reason not in refused.by_reason and len(refused.by_reason) > _MOST_REASONS:
            return None
        if len(refused.by_reason) == _MOST_REASONS and reason not in refused.by_reason:
            refused.by_reason[reason] = 1
            return f"client {client.name} rejects requests for ever new reasons; further ones are not logged"
        count = refused.by_reason[reason] = refused.by_reason.get(reason, 0) + 1
        if str(count).strip("0") != "1":
            return None
        times = "" if count == 1 else f" ({count} times)"
        return f"client {client.name} rejects the request: {reason}{times}"

    def forgive(self, client: Client) -> None:
        """Note that a client did what it was asked for."""
        if (refused := self._of.get(client.id)) is not None:
            refused.in_a_row, refused.until = 0, 0.0

    def left_s(self, client: Client, now: float) -> float:
        """Return for how many more seconds a client is left alone."""
        refused = self._of.get(client.id)
        return 0.0 if refused is None else max(0.0, refused.until - now)
