"""Every block of code in README and docs runs, or is marked with a reason why not."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main
from packaging.requirements import Requirement

from fedtempo.cli import app
from fedtempo.deploy.client.settings import load_client
from fedtempo.runs.config import parse
from tests.docs.blocks import KINDS, PAGES, ROOT, Block, blocks_of

COMMANDS = typer.main.get_command(app.app)
WHOLE: dict[str, Any] = {
    "run": {"horizon": 10.0},
    "data": {"clients": 10},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
}
"""What a part of a configuration is laid over."""

WITH_BLOCKS = [page for page in PAGES if blocks_of(page)]
LONG = {"docs/own-data.md", "docs/own-strategy.md", "docs/paper.md", "docs/python.md"}
"""Pages whose blocks take many seconds."""
_INLINE = re.compile(r"(?<!`)`(fedtempo [^`]+)`(?!`)")


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a reader's folder with configs/ and examples/, whose modules can be imported."""
    for name in ("configs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.long] if _name(page) in LONG else []) for page in WITH_BLOCKS],
    ids=_name,
)
def test_blocks_run(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _try_page(page, folder, capsys, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in WITH_BLOCKS if any(b.has("slow") for b in blocks_of(page))], ids=_name
)
def test_slow_blocks_run(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _try_page(page, folder, capsys, slow=True)


def test_every_block_names_its_language_and_few_are_skipped() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    unknown = [block.place for block in blocks if block.kind not in KINDS]
    assert not unknown, f"these blocks are not of a kind among {', '.join(KINDS)}: {', '.join(unknown)}"
    skipped = [block for block in blocks if block.has("skip")]
    assert all(len(block.words["skip"].split()) > 2 for block in skipped), "a skipped block says why"
    tested = [block for block in blocks if block.kind != "text"]
    assert len(skipped) <= len(tested) / 5, [block.place for block in skipped]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_in_running_text_exist(page: Path) -> None:
    for command in _INLINE.findall(page.read_text(encoding="utf-8")):
        try:
            words = shlex.split(command)
        except ValueError:  # an apostrophe in prose
            continue
        _look_at(words, page.name)


def _try_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str], *, slow: bool) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.has("slow") and not slow:
            continue
        if block.title is not None:
            _save(block, folder)
        if block.kind == "bash":
            capsys.readouterr()
            _try_commands(block)
            printed = " ".join("".join(capsys.readouterr()).split())
            assert block.words.get("says", "") in printed, f"{block.place}: {printed}"
        elif block.kind == "toml":
            for module in (
                earlier for earlier in blocks_of(page) if earlier.kind == "python" and earlier.title is not None
            ):
                _save(module, folder)  # a module may be shown after the configuration that names it
            _try_toml(block)
        elif block.kind == "python" and not block.has("skip") and not _lacks_module(block):
            exec(compile(block.text, block.place, "exec"), names)  # noqa: S102  it is this repository's own


def _lacks_module(block: Block) -> bool:
    return block.has("needs") and importlib.util.find_spec(block.words["needs"]) is None


def _save(block: Block, folder: Path) -> None:
    path = folder / str(block.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


def _try_commands(block: Block) -> None:
    for command in block.all("before"):
        assert _run(shlex.split(command)) == 0, f"{block.place}: {command}"
    for words in block.commands():
        if words[0] == "fedtempo":
            _look_at(words, block.place)
        if block.has("skip") or block.has("deployment") or _lacks_module(block):
            continue
        given = [part for change in block.words.get("set", "").split() for part in ("--set", change)]
        code = _run([*words, *(given if words[0] == "fedtempo" and _takes(words, "--set") else [])])
        assert code == int(block.words.get("exit", 0)), f"{block.place}: {shlex.join(words)}: exit code {code}"


def _try_toml(block: Block) -> None:
    tables = tomllib.loads(block.text)
    if block.has("client"):
        path = Path("tried-client.toml")
        path.write_text(block.text, encoding="utf-8")
        load_client(path)
    elif not block.has("pyproject") and not block.has("skip"):
        parse(tables if {"fleet", "strategy", "run"} <= tables.keys() else _laid_over(WHOLE, tables))


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sections key by key; a strategy of another name replaces the whole section."""
    merged = {name: dict(table) for name, table in below.items()}
    for name, table in above.items():
        merged[name] = dict(table) if name == "strategy" and "name" in table else {**merged.get(name, {}), **table}
    return merged


def _run(words: Sequence[str]) -> int:
    """Run what a reader would type; return the exit code."""
    program, *arguments = words
    if program == "fedtempo":
        return _fedtempo(arguments)
    if program in ("python", "python3"):
        return subprocess.run([sys.executable, *arguments], check=False).returncode
    if program == "make":
        dry = ["make", "--dry-run", "--silent", *arguments]
        return subprocess.run(dry, cwd=ROOT, capture_output=True, check=False).returncode
    if program == "pip":
        return _pip(arguments)
    if program == "rm":
        Path(arguments[0]).unlink()
        return 0
    raise AssertionError(f"{shlex.join(words)}: no way to test this command; see tests/docs/blocks.py")


def _fedtempo(arguments: Sequence[str]) -> int:
    before, sys.argv = sys.argv, ["fedtempo", *arguments]
    try:
        app.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    return 0


def _pip(arguments: Sequence[str]) -> int:
    """Check that the extras of fedtempo in the command exist; nothing is installed."""
    requirement = Requirement(arguments[-1])
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return int(arguments[0] != "install" or requirement.name != "fedtempo" or not requirement.extras <= known.keys())


def _look_at(words: Sequence[str], where_written: str) -> None:
    """Check that a command and its options exist."""
    command, rest = _command(words)
    options = {name for param in [*command.params, *COMMANDS.params] for name in param.opts} | {"--help"}
    for word in rest:
        if word.startswith("--"):
            assert word.partition("=")[0] in options, f"{where_written}: {shlex.join(words)}: no option {word}"


def _takes(words: Sequence[str], option: str) -> bool:
    return any(option in param.opts for param in _command(words)[0].params)


def _command(words: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the called command and the words after it."""
    command, rest = COMMANDS, list(words[1:])
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0].isupper():  # stands for any command
            break
        assert rest[0] in command.commands, f"{shlex.join(words)}: no command {rest[0]}"
        command = command.commands[rest.pop(0)]
    return command, rest
