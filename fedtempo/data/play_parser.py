"""Plays in Markdown as speeches by role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPEAKER = re.compile(r"\*\*(.+)\*\*")
_BROKEN_DIRECTION = re.compile(r"\[.*\]_")
_DIRECTION_INSIDE = re.compile(r"_+\\?\[.*?\\?\]_")
_ESCAPED = re.compile(r"\\([^\w\s])")


@dataclass(frozen=True)
class Role:
    """Everything that one speaker of one play says. name: as printed, so that "Nurse" and "NURSE" are two."""

    play: str
    name: str
    speeches: tuple[str, ...]

    @property
    def characters(self) -> int:
        """Length of all speeches, nothing between them counted."""
        return sum(map(len, self.speeches))


def speeches(markdown: str) -> list[tuple[str, str]]:
    """The speeches of a play, in order: (role, text), the lines of a text parted by newlines.

    A line of nothing but **NAME** opens a speech, a heading ends it. Stage directions, in _..._ or *...*, are left
    out, within lines and over several; a speech goes on after them, and over blank lines. Backslashes before
    punctuation go, runs of white space become one space. What nobody speaks is left out.
    """
    found: list[tuple[str, list[str]]] = []
    lines: list[str] | None = None
    for line in _outside_directions(markdown):
        if line.startswith("#"):
            lines = None
        elif speaker := _SPEAKER.fullmatch(line):
            lines = []
            found.append((speaker[1], lines))
        elif lines is not None and (spoken := _spoken(line)):
            lines.append(spoken)
    return [(name, "\n".join(text)) for name, text in found]


def roles(play: str, markdown: str) -> list[Role]:
    """The roles of a play, in the order of their first speeches."""
    said: dict[str, list[str]] = {}
    for name, text in speeches(markdown):
        said.setdefault(name, []).append(text)
    return [Role(play, name, tuple(texts)) for name, texts in said.items()]


def _outside_directions(markdown: str) -> Iterator[str]:
    """Lines, stripped, without blank ones and without those that are stage directions.

    A direction that no mark ends is over before the next blank line, speaker or heading.
    """
    mark = ""  # what ends the direction that goes on
    for line in map(str.strip, markdown.split("\n")):
        if not line or line.startswith("#") or _SPEAKER.fullmatch(line):
            mark = ""
        elif mark or line[0] in "_*":
            mark, alone = mark or line[0], not mark
            if line.endswith(mark) and not (alone and len(line) == 1):
                mark = ""
            continue
        if line:
            yield line


def _spoken(line: str) -> str:
    """A line of a speech without directions and Markdown's escapes."""
    if _BROKEN_DIRECTION.fullmatch(line):
        return ""
    return _ESCAPED.sub(r"\1", " ".join(_DIRECTION_INSIDE.sub("", line).split()))
