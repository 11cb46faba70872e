"""The notebooks run in a Jupyter kernel, if nbclient and ipykernel are installed (`make docs` installs both)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "picture"), [("first_steps", "application/vnd.plotly.v1+json"), ("your_devices", "image/png")]
)
def test_a_notebook_runs_in_jupyter_unchanged(
    name: str, picture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / f"examples/{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    executed = nbclient.execute(notebook, cwd=str(tmp_path), timeout=300, kernel_name="python3")
    shown = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"text/html", picture} <= kinds, kinds
    assert not _complaints(shown)


def _complaints(shown: list[Any]) -> list[str]:
    """Return what was written to stderr, such as warnings, which a reader would see in red."""
    return [output.text for output in shown if output.output_type == "stream" and output.name == "stderr"]
