"""The table of commands and Python calls: it has every command, and every call exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

import fedtempo
from fedtempo import Comparison, Experiment, Plan, Result, Sweep, Tuning
from fedtempo.cli import app
from tests.docs.blocks import ROOT

OBJECTS = {
    "experiment": Experiment,
    "result": Result,
    "comparison": Comparison,
    "sweep": Sweep,
    "plan": Plan,
    "tuning": Tuning,
}
REFERENCE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")


def _rows() -> dict[str, list[str]]:
    """Return the calls of each command."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    table = page[page.index("| command | Python |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").split(" | ", 1) for line in table]
    return {command.strip("`"): re.findall(r"`([^`]+)`", calls) for command, calls in cells}


def _commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*words, name))
        else:
            yield " ".join((*words, name))


def test_every_command_has_a_python_call() -> None:
    assert list(_rows()) == list(_commands(typer.main.get_command(app.app)))


@pytest.mark.parametrize("call", [call for calls in _rows().values() for call in calls])
def test_every_call_exists_and_is_in_the_reference(call: str) -> None:
    calls = [node for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Call)]
    for function in (node.func for node in calls):
        if isinstance(function, ast.Name):
            assert function.id in fedtempo.__all__
            assert re.search(rf"^::: fedtempo\.[\w.]+\.{function.id}$", REFERENCE, re.MULTILINE)
        else:
            assert isinstance(function, ast.Attribute)
            owner = function.value
            kinds = [OBJECTS[owner.id]] if isinstance(owner, ast.Name) and owner.id in OBJECTS else OBJECTS.values()
            assert any(callable(getattr(kind, function.attr, None)) for kind in kinds)


def test_every_name_of_the_api_is_in_the_reference() -> None:
    for name, module in fedtempo._LATER.items():
        assert f"::: {module}.{name}\n" in REFERENCE, name
