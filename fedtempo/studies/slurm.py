"""A sweep as an array job of Slurm: the script that `sbatch` takes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fedtempo.errors import ConfigError
from fedtempo.parts.import_path import search_path
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config

SCRIPT = "sweep.sbatch"
"""File with the script in a sweep's folder."""

LOGS = "slurm"
"""Folder in a sweep's folder with what the tasks print."""

_SCRIPT = """\
#!/bin/bash
# One task for each run of the sweep that has not finished. Options of sbatch override those given here, for example
#   sbatch --partition=cpu --time=08:00:00 {script}
#SBATCH --job-name={name}
#SBATCH --array={array}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cpus}{gpus}
#SBATCH --output={logs}/%A_%a.txt
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@60

cd {here} || exit 1
{modules}export SLURM_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-{cpus}}}

# Clusters limit the numbers of an array. For runs beyond: FIRST=1000 sbatch --array=0-499 {script}
# exec: Slurm's signal before the time limit reaches the run, which makes a checkpoint and ends.
exec {python} -m fedtempo sweep --out {folder} --task $((SLURM_ARRAY_TASK_ID + ${{FIRST:-0}}))
"""


def write_script(folder: Path, config: Config, numbers: Sequence[int], jobs: int | None) -> Path:
    """Write the script for some runs of the sweep in a folder; return its path.

    config: says how many CPUs a task gets (`executor.workers`, 1 by default) and whether it needs a GPU. numbers: of
    the runs, from 0. jobs: number of tasks at the same time (default: no limit). Raises ConfigError if no run is left.
    """
    if not numbers:
        raise ConfigError(f"{folder}: all runs have finished; `fedtempo sweep --collect {folder}` shows them")
    path, modules = folder.resolve(), search_path()
    (path / LOGS).mkdir(exist_ok=True)
    quoted = shlex.quote(str(path / SCRIPT))
    write_text(
        path / SCRIPT,
        _SCRIPT.format(
            script=quoted,
            name=_without_spaces(f"fedtempo-{path.name}"),
            array=_ranges(numbers) + ("" if jobs is None else f"%{jobs}"),
            cpus=config.executor.workers or 1,
            gpus="" if config.executor.device == "cpu" else "\n#SBATCH --gpus-per-task=1",
            logs=_escaped(path / LOGS),
            here=shlex.quote(str(Path.cwd())),
            modules=f"export PYTHONPATH={shlex.quote(':'.join(modules))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
            if modules
            else "",
            python=shlex.quote(sys.executable),
            folder=shlex.quote(str(path)),
        ),
    )
    return folder / SCRIPT


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as Slurm takes them: "0-3,7"."""
    from fedtempo.report.words import whole_ranges

    return whole_ranges(numbers).replace("–", "-").replace(", ", ",")


def _escaped(path: Path) -> str:
    """Return a path in which sbatch replaces nothing and sees no second option."""
    return str(path).replace("\\", "\\\\").replace("%", "%%").replace(" ", "\\ ")


def _without_spaces(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
