"""What pages of results have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def settings_in_words(chosen: Mapping[str, Any]) -> str:
    """What a tuning chose, "clients_at_once 50, lr 0.3"; without what it could not choose."""
    words = []
    for key, value in chosen.items():
        name = key.removeprefix("strategy.").removeprefix("training.")
        if name not in ("tick_s", "deadline_s"):
            words.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)
