"""One page over the results of many figures: what was asked for, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.experiments.registry import EXPERIMENTS

_HEAD = """# Every figure and table, paper beside measured

Each row is one `fedtempo reproduce NAME`; its page has the numbers, its folder the pictures, the numbers as JSON and
the configuration. A verdict comes from tolerances that the experiment states: *reached*, *same direction* (the paper's
order of things holds, with other factors, or some of its statements hold and some do not), *not reached*.

| name | what | the paper's data | measured on | scale | verdict |
|---|---|---|---|---|---|
"""


def write_index(folder: Path) -> Path:
    """`index.md` over all `result.json` below a folder, in the order of the registry; what was not run says so.

    Raises ConfigError where there is no result.
    """
    results = {
        str(result["experiment"]): (path, result) for path in folder.rglob("result.json") for result in [_read(path)]
    }
    if not results:
        raise ConfigError(f"{folder}: no result.json below it; run `fedtempo reproduce NAME --out {folder}/NAME` first")
    lines = []
    for name, experiment in EXPERIMENTS.items():
        if name in results:
            path, result = results[name]
            link = f"[{name}]({path.parent.relative_to(folder).as_posix()}/result.md)"
            measured = (result["data"] or "", result["scale"], result["verdict"] or "no statement to reach")
        else:
            link, measured = name, ("", "", "not run")
        cells = (link, experiment.title, experiment.data or "none", *measured)
        lines.append(f"| {' | '.join(cells)} |")
    target = folder / "index.md"
    target.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return target


def _read(path: Path) -> Mapping[str, Any]:
    result: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result
