"""Blocks of code in pages, and what it takes to run them.

Comments above a block say how it is tested; a reader of the page does not see them.

    <!-- test: set KEY=VALUE ... -->   what fedtempo's commands are given besides, to take seconds
    <!-- test: slow -->                run it among the slow tests only
    <!-- test: exit N -->              the exit code of each command, 0 otherwise
    <!-- test: says TEXT -->           what the block's commands print, among other things
    <!-- test: before COMMAND -->      what must have happened, in the reader's own folder, say
    <!-- test: needs MODULE -->        where that is not installed, only look at the commands' options
    <!-- test: skip REASON -->         only look at the commands' options
    <!-- test: client -->              TOML: it is a client's file
    <!-- test: pyproject -->           TOML: it belongs into the reader's own package

A block of TOML that is no whole configuration is tried as a part of one. title="FILE" saves a block where later ones of
the page find it. Blocks of text, what a program printed say, are not tested; they must be marked `text`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
KINDS = ("bash", "python", "toml", "text")

_COMMENT = re.compile(r"^ *<!-- test: (?P<word>\w+) ?(?P<rest>.*?) -->$")
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<kind>[\w-]*)(?P<info>.*)$")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
_DIRECTIVES = {"set", "slow", "exit", "says", "before", "needs", "skip", "client", "pyproject"}


@dataclass(frozen=True)
class Block:
    """A fenced block. line: of its fence. directives: of the comments above it, in order."""

    page: Path
    line: int
    kind: str
    info: str
    text: str
    directives: list[tuple[str, str]] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def title(self) -> str | None:
        match = _TITLE.search(self.info)
        return match["title"] if match else None

    @cached_property
    def words(self) -> dict[str, str]:
        return dict(self.directives)

    def has(self, word: str) -> bool:
        return word in self.words

    def all(self, word: str) -> list[str]:
        return [rest for name, rest in self.directives if name == word]

    def commands(self) -> list[list[str]]:
        """The lines of a shell, as words; comments are left out, lines that end in a backslash go on."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page, in order. Raises ValueError for a comment that nobody understands."""
    return list(_blocks(page, page.read_text(encoding="utf-8").splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    position, directives = 0, []
    while position < len(lines):
        line = lines[position]
        comment, fence = _COMMENT.match(line), _FENCE.match(line)
        if comment:
            if comment["word"] not in _DIRECTIVES:
                raise ValueError(f"{page}:{position + 1}: {comment['word']}: there is {', '.join(sorted(_DIRECTIVES))}")
            directives.append((comment["word"], comment["rest"]))
        elif fence:
            begun = position
            position += 1
            while not lines[position].strip().startswith(fence["ticks"]):
                position += 1
            indent = len(fence["indent"])
            text = "\n".join(source_line[indent:] for source_line in lines[begun + 1 : position]) + "\n"
            yield Block(page, begun + 1, fence["kind"], fence["info"], text, directives)
            directives = []
        elif line.strip() and directives:
            raise ValueError(f"{page}:{position + 1}: a block must follow a comment about its test")
        position += 1
    if directives:
        raise ValueError(f"{page}: a block must follow a comment about its test")
