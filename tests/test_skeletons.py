"""`fedtempo new`: what it writes works as it is, its tests pass, and it overwrites nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedtempo import skeletons
from fedtempo.errors import ConfigError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skeletons")
    for kind in skeletons.KINDS:
        skeletons.write(kind, f"my-{kind}", folder)
    return folder


def test_the_tests_of_every_skeleton_pass_as_they_are(written: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)]
    found = subprocess.run(
        command, cwd=written, env={**os.environ, "PYTHONPATH": f"{ROOT}"}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "10 passed" in found.stdout


def test_skeletons_are_as_tidy_as_our_code(written: Path) -> None:
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
def test_names(name: str, module: str, class_name: str, tmp_path: Path) -> None:
    files = skeletons.write("strategy", name, tmp_path)
    assert [path.name for path in files] == [f"{module}.py", f"test_{module}.py"]
    assert f"class {class_name}:" in files[0].read_text()
    assert "$" not in files[0].read_text() + files[1].read_text()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "test_my_idea.py").write_text("mine")
    with pytest.raises(ConfigError, match=r"test_my_idea.py is there already"):
        skeletons.write("strategy", "my-idea", tmp_path)
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
def test_names_that_are_none(kind: str, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        skeletons.write(kind, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_a_network(tmp_path: Path) -> None:
    assert "nn.Module" in skeletons.write("model", "wide", tmp_path)[0].read_text()
