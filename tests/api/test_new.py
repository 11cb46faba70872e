"""`fedtempo new`: what it writes works as it is, its tests pass, and it overwrites nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedtempo import config_text
from fedtempo.api import new
from fedtempo.errors import ConfigError
from fedtempo.runs.config import load
from fedtempo.runs.shipped import config_names, config_path
from fedtempo.strategies import STRATEGIES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skeletons")
    for kind in new.KINDS:
        new.new_part(kind, f"my-{kind}", folder)
    return folder


def test_the_tests_of_every_skeleton_pass_unchanged(written: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)]
    found = subprocess.run(
        command, cwd=written, env={**os.environ, "PYTHONPATH": f"{ROOT}"}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "10 passed" in found.stdout


def test_skeletons_pass_ruff(written: Path) -> None:
    settings = ["--config", str(ROOT / "pyproject.toml")]
    for command in (["check"], ["format", "--check"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *settings, "--no-cache", str(written)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("name", "module", "class_name"),
    [("my-idea", "my_idea", "MyIdea"), ("FedBest", "fed_best", "FedBest"), ("x2", "x2", "X2"), ("a_b", "a_b", "AB")],
)
def test_names_become_module_and_class_names(name: str, module: str, class_name: str, tmp_path: Path) -> None:
    files = new.new_part("strategy", name, tmp_path)
    assert [path.name for path in files] == [f"{module}.py", f"test_{module}.py"]
    assert f"class {class_name}:" in files[0].read_text()
    assert "$" not in files[0].read_text() + files[1].read_text()


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "test_my_idea.py").write_text("mine")
    with pytest.raises(ConfigError, match=r"test_my_idea.py already exists; choose another name or folder"):
        new.new_part("strategy", "my-idea", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_my_idea.py"]
    assert (tmp_path / "test_my_idea.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("strateg", "x", "new strateg: no such kind; did you mean 'strategy'"),
        ("strategy", "../x", "give it a name of letters"),
        ("strategy", "2x", "give it a name of letters"),
        ("strategy", "class", "give it a name of letters"),
        ("strategy", "random", r"random\.py would hide a module"),
        ("network", "fedtempo", r"fedtempo\.py would hide a module"),
    ],
)
def test_invalid_names_are_rejected(kind: str, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        new.new_part(kind, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_new_model_is_a_network(tmp_path: Path) -> None:
    assert "nn.Module" in new.new_part("model", "wide", tmp_path)[0].read_text()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_has_a_commented_configuration(name: str, tmp_path: Path) -> None:
    path = new.new_config(name, tmp_path)
    assert path == tmp_path / f"{name}.toml"
    assert path.read_bytes() == config_path(name).read_bytes()
    assert path.read_text(encoding="utf-8") == config_text(name)
    assert load(path).strategy_name == name
    assert path.read_text().startswith("# ")


def test_shipped_configurations_equal_those_of_the_repository() -> None:
    assert sorted(path.stem for path in (ROOT / "configs").glob("*.toml")) == config_names()


OWN = """
from dataclasses import dataclass
from typing import Annotated
from typing_extensions import Doc

@dataclass(frozen=True)
class MyOwnIdea:
    needed: Annotated[int, Doc("clients in a team")]
    rate: Annotated[float, Doc("share of the fleet, 0 to 1")] = 0.25
    kind: str = "x"
    limits: Annotated[tuple[int, ...], Doc("limits")] = (1, 2)
    most: int | None = None
    quick: bool = True

    async def run(self, fed):
        await fed.sleep_until(1.0)
"""


def test_a_configuration_for_a_users_strategy_lists_its_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_idea_module.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = new.new_config("own_idea_module:MyOwnIdea", tmp_path / "new")
    assert path.name == "my-own-idea.toml"
    text = path.read_text()
    for line in (
        'name = "own_idea_module:MyOwnIdea"',
        "# needed = ...  # clients in a team (required)",
        "rate = 0.25  # share of the fleet, 0 to 1",
        'kind = "x"',
        "# limits = ...  # limits",
        "# most = ...",
        "quick = true",
    ):
        assert line in text.splitlines()
    with pytest.raises(ConfigError, match=r"strategy.needed"):
        load(path)
    path.write_text(text.replace("# needed = ...", "needed = 3"))
    assert load(path).strategy.needed == 3  # type: ignore[attr-defined]


def test_a_new_configuration_overwrites_nothing_and_needs_a_known_name(tmp_path: Path) -> None:
    (tmp_path / "fedavg.toml").write_text("mine")
    with pytest.raises(ConfigError, match=r"fedavg.toml already exists; choose another folder"):
        new.new_config("fedavg", tmp_path)
    assert (tmp_path / "fedavg.toml").read_text() == "mine"
    with pytest.raises(ConfigError, match=r"new config fedav: no such configuration; did you mean 'fedavg'"):
        new.new_config("fedav", tmp_path)
    with pytest.raises(ConfigError, match=r"new config os:getcwd: it is a builtin_function_or_method, not a class"):
        new.new_config("os:getcwd", tmp_path)


def test_a_missing_file_with_the_name_of_a_shipped_one_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`fedtempo new config hybrid` writes a configuration of that name$"):
        load(tmp_path / "configs" / "hybrid.toml")
    with pytest.raises(ConfigError, match=r"No such file or directory$"):
        load(tmp_path / "configs" / "mine.toml")
