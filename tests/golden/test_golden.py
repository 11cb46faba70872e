"""Every golden case of this folder that has an adapter, one test each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import __main__ as golden

FILES = sorted(golden.HERE.glob("*.json"))
CASES = [
    pytest.param(path.stem, case, id=f"{path.stem}: {case['name']}")
    for path in FILES
    if golden.adapter(path.stem) is not None
    for case in golden.cases(path)
]


@pytest.mark.parametrize(("topic", "case"), CASES)
def test_case(topic: str, case: dict[str, Any]) -> None:
    check = golden.adapter(topic)
    assert check is not None
    check(case)


def test_the_command_counts_failures_and_lists_files_without_adapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = json.loads((golden.HERE / "mixing.json").read_text())["cases"][0]
    wrong = {**right, "name": "wrong", "expected": {"beta": [0.5] * len(right["expected"]["beta"])}}
    (tmp_path / "mixing.json").write_text(json.dumps({"cases": [right, wrong]}))
    (tmp_path / "unheard_of.json").write_text(json.dumps({"cases": [right]}))
    assert golden.main(tmp_path) == 1
    printed = capsys.readouterr().out
    assert "mixing: 1/2" in printed
    assert "unheard_of: no adapter" in printed
    assert "mixing / wrong: AssertionError" in printed
