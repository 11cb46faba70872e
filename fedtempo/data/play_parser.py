"""Parse plays in Markdown into speeches by role."""

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
    """The speeches of one speaker of a play. name: as printed, so that "Nurse" and "NURSE" are two roles."""

    play: str
    name: str
    speeches: tuple[str, ...]

    @property
    def characters(self) -> int:
        """Total length of all speeches, without separators."""
        return sum(map(len, self.speeches))


def speeches(markdown: str) -> list[tuple[str, str]]:
    """Return the speeches of a play in order, as (role, text) with the lines of a text separated by newlines.

    A line that is only **NAME** starts a speech; a heading ends it. Stage directions, in _..._ or *...*, within a line
    or over several, are removed; a speech continues after them and over blank lines. Backslashes before punctuation are
    removed, and runs of white space become one space. Text outside speeches is left out.
    """
    texts_by_speech: list[tuple[str, list[str]]] = []
    lines: list[str] | None = None
    for line in _outside_directions(markdown):
        if line.startswith("#"):
            lines = None
        elif speaker := _SPEAKER.fullmatch(line):
            lines = []
            texts_by_speech.append((speaker[1], lines))
        elif lines is not None and (spoken := _spoken(line)):
            lines.append(spoken)
    return [(name, "\n".join(text)) for name, text in texts_by_speech]


def roles(play: str, markdown: str) -> list[Role]:
    """Return the roles of a play in the order of their first speeches."""
    texts_of: dict[str, list[str]] = {}
    for name, text in speeches(markdown):
        texts_of.setdefault(name, []).append(text)
    return [Role(play, name, tuple(texts)) for name, texts in texts_of.items()]


def _outside_directions(markdown: str) -> Iterator[str]:
    """Yield stripped lines, without blank lines and stage directions.

    A direction without an end mark ends before the next blank line, speaker or heading.
    """
    mark = ""  # end mark of the current direction
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
    """Return a line of a speech without directions and Markdown escapes."""
    if _BROKEN_DIRECTION.fullmatch(line):
        return ""
    return _ESCAPED.sub(r"\1", " ".join(_DIRECTION_INSIDE.sub("", line).split()))
