"""The code that a module uses, of modules written for these tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedtempo.parts import source_files
from fedtempo.studies.papers import used_code as followed
from fedtempo.studies.papers.used_code import used_code

USER = """
from typing import TYPE_CHECKING

from room.tools import half, quarter as a_quarter
from room import constants

if TYPE_CHECKING:
    from room.types import Kind


def area(x: Kind) -> float:
    from room.later import third
    return half(x) + a_quarter(x) + third(x) + constants.ONE
"""
TOOLS = """
import math

from room.later import UNUSED, rounded

_TWO = 2.0  # a comment
print("loose")


def half(x):
    \"\"\"A docstring.\"\"\"
    return x / _TWO


def quarter(x):
    return rounded(half(half(x)))


def other(x):
    return math.floor(x), UNUSED
"""
FILES = {
    "user": USER,
    "tools": TOOLS,
    "constants": "ONE = 1\n",
    "later": "UNUSED = 0\n\n\ndef third(x):\n    return x / 3\n\n\ndef rounded(x):\n    return round(x)\n",
    "types": "Kind = float\n",
}


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, str]]]:
    """Return a function that writes the files, with replacements in one of them, and returns the code in use."""
    monkeypatch.syspath_prepend(tmp_path)

    def code(name: str = "", old: str = "", new: str = "") -> dict[str, str]:
        (tmp_path / "room").mkdir(exist_ok=True)
        for module, source in {"__init__": "", **FILES}.items():
            changed = source.replace(old, new) if module == name else source
            assert module != name or changed != source
            (tmp_path / "room" / f"{module}.py").write_text(changed)
        for cached in (source_files.file_of, followed._read):
            cached.cache_clear()
        return {path.stem: text for path, text in used_code("room.user", ("room",))}

    yield code
    for module in [name for name in sys.modules if name.partition(".")[0] == "room"]:
        del sys.modules[module]


def test_definitions_that_are_named_count_and_others_do_not(edited: Callable[..., dict[str, str]]) -> None:
    code = edited()
    assert code.keys() == {"user", "tools", "later", "constants"}
    lines = code["tools"].splitlines()
    assert lines == [
        "import room.later.rounded as rounded",
        "_TWO = 2.0",
        'print("loose")',
        "def half(x):",
        "    return x / _TWO",
        "def quarter(x):",
        "    return rounded(half(half(x)))",
    ]
    assert "UNUSED" not in code["later"]
    assert "Kind" in code["user"]


@pytest.mark.parametrize(
    ("name", "old", "new", "matters"),
    [
        ("tools", "_TWO = 2.0", "_TWO = 2.5", True),
        ("tools", "x / _TWO", "_TWO / x", True),
        ("tools", "loose", "looser", True),
        ("tools", "math.floor(x)", "math.ceil(x)", False),
        ("tools", "A docstring", "Another", False),
        ("tools", "# a comment", "# no comment", False),
        ("tools", "import UNUSED, rounded", "import UNUSED, third as rounded", True),
        ("later", "x / 3", "x / 4", True),
        ("later", "round(x)", "round(x, 1)", True),
        ("later", "UNUSED = 0", "UNUSED = 1", False),
        ("constants", "ONE = 1", "ONE = 2", True),
        ("types", "float", "int", False),
        ("user", "from room.types import Kind", "from room.types import Kind, Kinds", False),
    ],
)
def test_a_change_matters_where_it_is_used(
    edited: Callable[..., dict[str, str]], name: str, old: str, new: str, matters: bool
) -> None:
    before = edited()
    assert (edited(name, old, new) != before) == matters


def test_files_may_be_left_out(edited: Callable[..., dict[str, str]]) -> None:
    edited()
    assert {path.stem for path, _ in used_code("room.user", ("room",), without=["tools"])} == {
        "user",
        "later",
        "constants",
    }
