"""Blocks of code in pages, and the comments that control how they are tested.

Comments above a block say how it is tested; readers of the page do not see them.

    <!-- test: set KEY=VALUE ... -->   added to fedtempo's commands, so that they take seconds
    <!-- test: slow -->                run it only among the slow tests
    <!-- test: exit N -->              the exit code of each command (default: 0)
    <!-- test: says TEXT -->           text that the block's commands must print
    <!-- test: before COMMAND -->      a command to run first, for example in the reader's folder
    <!-- test: needs MODULE -->        if it is not installed, only check the commands' options (Python: skip it)
    <!-- test: skip REASON -->         only check the commands' options
    <!-- test: deployment NAME -->     a step of the walk NAME in tests/deploy/test_pages.py; elsewhere like skip
    <!-- test: client -->              TOML: a client's file
    <!-- test: pyproject -->           TOML: part of the reader's package

A block of TOML that is not a complete configuration is tested as a part of one. title="FILE" saves a block for later
blocks of the page. Blocks of text, such as a program's output, are not tested; they must be marked `text`.
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
_DIRECTIVES = {"set", "slow", "exit", "says", "before", "needs", "skip", "client", "pyproject", "deployment"}


@dataclass(frozen=True)
class Block:
    """A fenced block. line: number of the fence's line. directives: from the comments above it, in order."""

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
        """Return the shell commands as words, without comments; a backslash at the end of a line continues it."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks_of(page: Path) -> list[Block]:
    """Return all blocks of a page in order. Raises ValueError for an unknown comment."""
    return list(_blocks(page, page.read_text(encoding="utf-8").splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    position, directives = 0, []
    while position < len(lines):
        line = lines[position]
        comment, fence = _COMMENT.match(line), _FENCE.match(line)
        if comment:
            if comment["word"] not in _DIRECTIVES:
                raise ValueError(
                    f"{page}:{position + 1}: {comment['word']}: not one of {', '.join(sorted(_DIRECTIVES))}"
                )
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
