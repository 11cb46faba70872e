"""A sweep on a Ray cluster: one task for each run, in the sweep's folder if the node has it, else in one of its own."""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError, RunError
from fedtempo.parts.import_path import search_path
from fedtempo.record.folder import claim
from fedtempo.runtime.executors.ray_actor import computing_versions
from fedtempo.runtime.executors.ray_session import Session
from fedtempo.studies.compare import PLAN, PlannedRun
from fedtempo.studies.spreading import BY_CLUSTER, Outcome, complete_alone
from fedtempo.studies.tuning.ray_pool import prepare_node


def on_ray(folder: Path, runs: Sequence[PlannedRun], force: bool, jobs: int) -> Iterator[tuple[PlannedRun, Outcome]]:
    """Complete runs as tasks of a Ray cluster; yield each with its outcome as it ends.

    jobs: number of tasks at the same time, or `BY_CLUSTER` for as many as fit. A task whose node is lost is repeated on
    another one. Raises ConfigError if Ray is not installed, or the cluster cannot be reached or has no room.
    """
    executor = runs[0].config.executor
    needs = {"CPU": executor.num_cpus, "GPU": executor.num_gpus, **executor.resources}
    session = Session(executor.address, None if jobs == BY_CLUSTER else jobs * executor.num_cpus)
    try:
        room = session.room_for(needs)
        if not room:
            listed = ", ".join(f"{name} {value}" for name, value in needs.items() if value)
            raise ConfigError(f"executor.address: the cluster has no room for a run with {listed}")
        task = session.ray.remote(
            num_cpus=executor.num_cpus,
            num_gpus=executor.num_gpus,
            resources=dict(executor.resources),
            max_retries=-1,
            scheduling_strategy="SPREAD",
        )(_complete_on_node)
        plan, ours, folders = (folder / PLAN).read_text(encoding="utf-8"), computing_versions(), search_path()[::-1]
        waiting = deque(runs)
        begun: dict[Any, PlannedRun] = {}
        while waiting or begun:
            while waiting and len(begun) < (room if jobs == BY_CLUSTER else jobs):
                run = waiting.popleft()
                begun[task.remote(run, str(folder.resolve()), plan, ours, folders, force)] = run
            ready, _ = session.ray.wait(list(begun), num_returns=1)
            run = begun.pop(ready[0])
            yield run, _received(folder / run.name, _answer(session.ray, ready[0]))
    finally:
        session.close()


def _answer(ray: Any, reference: Any) -> tuple[Outcome, bytes | None]:
    try:
        answer: tuple[Outcome, bytes | None] = ray.get(reference)
    except ray.exceptions.RayError as error:
        return RunError(f"its task failed: {str(error).strip().splitlines()[-1]}"), None
    return answer


def _complete_on_node(
    run: PlannedRun, folder: str, plan: str, versions: dict[str, str | None], modules: Sequence[str], force: bool
) -> tuple[Outcome, bytes | None]:
    """Complete a run on a node; return its outcome and, if the node does not have the sweep's folder, its files.

    plan: content of the sweep's plan, by which its folder is recognised. versions: those that results depend on.
    """
    try:
        prepare_node(versions, modules)
    except RunError as error:
        return error, None
    try:
        shared = (Path(folder) / PLAN).read_text(encoding="utf-8") == plan
    except OSError:
        shared = False
    if shared:
        return complete_alone(run, Path(folder) / run.name, force), None
    with tempfile.TemporaryDirectory(prefix="fedtempo-run-") as own:
        target = Path(own) / run.name
        outcome = complete_alone(run, target, force)
        return outcome, _packed(target) if isinstance(outcome, dict) else None


def _packed(folder: Path) -> bytes:
    """Return the files of a finished run as a zip archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != ".lock":
                archive.write(path, path.relative_to(folder))
    return packed.getvalue()


def _received(target: Path, answer: tuple[Outcome, bytes | None]) -> Outcome:
    """Put the files of a run that was made elsewhere into its folder; return its outcome."""
    outcome, packed = answer
    if packed is None:
        return outcome
    target.mkdir(parents=True, exist_ok=True)
    lock = claim(target)
    try:
        for path in target.iterdir():  # an unfinished run, which the one made elsewhere replaces
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            names = sorted(archive.namelist(), key="summary.json".__eq__)  # last, as it says that the run has finished
            archive.extractall(target, names)
    finally:
        lock.release()
    return outcome
