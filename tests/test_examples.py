"""The examples and notebooks work as described, at a small size."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedtempo import Advice, Comparison, Plan, Result

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script as a module, so that a configuration can name its contents."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_the_example_of_one_run_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result: Result = example("one_run", monkeypatch).main(tmp_path / "out", horizon_s=40.0)
    assert result.label == "fedhusky"
    assert len(result.curve()) == 9
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"accuracy.png", "experiment.toml"}


def test_the_example_of_a_users_strategy_works(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison: Comparison = example("own_strategy", monkeypatch).main(horizon_s=60.0)
    assert list(comparison.results) == ["own_strategy:FastestFirst", "everybody", "fedbuff"]
    fastest = comparison["own_strategy:FastestFirst"][0]
    assert (fastest.clients().visits > 0).sum() == 4
    assert fastest.summary["commits"] > comparison["everybody"][0].summary["commits"]


def test_the_example_of_a_tuned_comparison_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("tuned_comparison", monkeypatch)
    comparison: Comparison = module.main(tmp_path / "out", horizon_s=40.0, lr=(0.9, 0.3))
    assert list(comparison.results) == list(module.STRATEGIES)
    assert (tmp_path / "out" / "report.html").exists()


def test_the_example_of_advice_works(monkeypatch: pytest.MonkeyPatch) -> None:
    advice: Advice = example("which_strategy", monkeypatch).main(horizon_s=160.0, budget=8)
    assert {candidate.label for candidate in advice.evidence} == {"fedavg", "fedbuff", "fedasync", "sequential"}
    assert (advice.table().energy_wh > 0).all()


def test_the_example_of_a_measured_fleet_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: Plan = example("measured_fleet", monkeypatch).main(tmp_path / "out", horizon_s=100.0)
    assert list(plan.results) == ["fedavg", "fedbuff", "fedhusky"]
    assert (tmp_path / "out" / "fleet.png").exists()
    assert plan.table().busy_ratio.between(0.01, 1).all()


@pytest.mark.parametrize("name", ["first_steps", "your_devices"])
def test_a_notebook_runs_from_its_first_cell_to_its_last(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (4, len(notebook["cells"]))
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)

    async def as_in_a_kernel() -> list[str]:
        """Run cells within a task of a running event loop."""
        return [show(value) for cell in notebook["cells"] for value in run_cell(cell, module.__dict__)]

    shown = asyncio.run(as_in_a_kernel())
    assert len(shown) >= 6
    assert all(shown)
    assert any("<table" in text for text in shown)


def run_cell(cell: dict[str, Any], names: dict[str, Any]) -> list[Any]:
    """Run a cell; return what a notebook would show: the value of its last expression."""
    if cell["cell_type"] != "code":
        return []
    assert cell["outputs"] == [], "notebooks are kept without outputs"
    # Smaller than the written values, so that each takes seconds.
    text = "".join(cell["source"]).replace('"horizon": 200.0', '"horizon": 50.0').replace("seeds=[1, 2]", "seeds=[1]")
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102  a notebook of ours
    if last is None:
        return []
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    return [] if value is None else [value]


def show(value: Any) -> str:
    """Return a value as a notebook shows it: HTML if it has any, a figure by its contents, else text."""
    html: Callable[[], str] | None = getattr(value, "_repr_html_", None)
    if type(value).__module__.startswith("plotly"):
        return f"figure of {len(value.data)} traces" if value.data else ""
    return (html() if html is not None else None) or repr(value)
