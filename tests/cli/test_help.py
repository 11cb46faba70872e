"""Help that fits a screen and shows an example, and mistakes that are answered with what was meant: all commands."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import typer.main

from fedtempo.api.catalogue import SECTIONS
from fedtempo.cli import app
from fedtempo.errors import ConfigError
from fedtempo.runs.config import REGISTRIES, parse

_LINES, _COLUMNS = 40, 80
USABLE: dict[str, Any] = {
    "run": {"horizon": 1.0},
    "model": {"network": "logistic"},
    "training": {"lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
}
ROOT = typer.main.get_command(app.app)


def _commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group with the words that call it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*path, name))


COMMANDS = dict(_commands())
each_command = pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "fedtempo")


@pytest.fixture(autouse=True)
def _a_small_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(_COLUMNS))


def _ends_with(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fedtempo", *arguments])
    with pytest.raises(SystemExit) as ended:
        app.main()
    return int(ended.value.code or 0)


def _misspelt(word: str) -> str:
    """The word with two of its letters exchanged, or with one too many where that changes nothing."""
    if len(word) < 4 or word[-2] == word[-3]:
        return word + word[-1]
    return word[:-3] + word[-2] + word[-3] + word[-1]


@each_command
def test_help_fits_on_a_screen(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ends_with(monkeypatch, *path, "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= _COLUMNS
    assert len(lines) <= _LINES


@each_command
def test_help_shows_a_valid_example(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _ends_with(monkeypatch, *path, "--help")
    assert f"Example: fedtempo {' '.join(path)}".strip() in " ".join(capsys.readouterr().out.split())
    words = shlex.split(COMMANDS[path].epilog.removeprefix("Example: "))
    command, below = ROOT, words[1:]
    while hasattr(command, "commands"):
        command, *below = command.commands[below[0]], *below[1:]
    with contextlib.suppress(ConfigError):  # the example's run folder does not exist here
        command.make_context(
            words[-1], list(below)
        )  # raises for an option or a number of arguments that it does not take


@pytest.mark.parametrize("path", [path for path in COMMANDS if path], ids=" ".join)
def test_a_wrong_command_suggests_the_right_one(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ends_with(monkeypatch, *path[:-1], _misspelt(path[-1])) == 2
    answer = " ".join(capsys.readouterr().err.split())
    assert f"Did you mean '{path[-1]}'" in answer
    assert answer.count("Did you mean") == 1


@pytest.mark.parametrize("path", [path for path in COMMANDS if path], ids=" ".join)
def test_a_wrong_option_suggests_the_right_one(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [name for each in COMMANDS[path].params for name in each.opts if name.startswith("--")]
    for option in options:
        assert _ends_with(monkeypatch, *path, f"--{_misspelt(option[2:])}") == 2
        assert option in capsys.readouterr().err


@pytest.mark.parametrize(
    "section", [name for name in SECTIONS if name in ("[run]", "[data]", "[training]", "[server]")]
)
def test_a_wrong_key_suggests_the_right_one(section: str) -> None:
    table = section.strip("[]")
    for field in fields(SECTIONS[section]):
        with pytest.raises(ConfigError, match=f"did you mean '{field.name}'"):
            parse(USABLE | {table: {_misspelt(field.name): 1}})


@pytest.mark.parametrize("name", sorted(REGISTRIES["strategies"]))
def test_a_wrong_strategy_suggests_the_right_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
        parse(USABLE | {"strategy": {"name": _misspelt(name)}})


def test_a_wrong_table_suggests_the_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'training'"):
        parse(USABLE | {"trainig": {}})


def test_completion_answers_the_shell() -> None:
    """What bash asks when somebody types `fedtempo com` and the tabulator."""
    program = "import sys; sys.argv[0] = 'fedtempo'; from fedtempo.cli.app import app; app(prog_name='fedtempo')"
    asked = {"_FEDTEMPO_COMPLETE": "complete_bash", "COMP_WORDS": "fedtempo com", "COMP_CWORD": "1", "PATH": "/bin"}
    answered = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=asked, check=True)
    assert answered.stdout.split() == ["compare"]


def test_importing_fedtempo_or_asking_for_help_loads_no_heavy_library() -> None:
    program = (
        "import contextlib, io, sys, time\n"
        "began = time.process_time()\n"
        "import fedtempo\n"
        "took = time.process_time() - began\n"
        "from fedtempo.cli import app as cli\n"
        "sys.argv = ['fedtempo', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    cli.main()\n"
        "assert 'Usage' in out.getvalue()\n"
        "print(took, *sorted({'torch', 'scipy', 'sklearn', 'numpy', 'pydantic', 'plotly'} & set(sys.modules)))\n"
    )
    answered = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    took, *loaded = answered.stdout.split()
    assert loaded == []
    assert float(took) < 0.3
