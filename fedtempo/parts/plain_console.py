"""The consoles on which commands show what they have to say, often with text from others: plain, without markup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from fedtempo.parts.foreign_text import visible


class PlainConsole(Console):
    """A console that takes text as it is: no markup, no emoji, and control characters escaped.

    Rich's own control sequences, such as those of progress bars and colours, still work.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, markup=False, **options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=visible(segment.text)) for segment in buffer
        )
