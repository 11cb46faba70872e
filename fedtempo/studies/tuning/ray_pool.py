"""A Ray cluster in place of worker processes: each item of work is a task, which may run on any node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from fedtempo.errors import ConfigError, RunError
from fedtempo.parts.import_path import add_folder, search_path
from fedtempo.runtime.executors.ray_actor import computing_versions
from fedtempo.runtime.executors.ray_session import Session

S = TypeVar("S")
T = TypeVar("T")
Versions = dict[str, str | None]
LOCAL = "local"
"""The address of a new cluster on this machine."""


class RayPool:
    """Worker processes of a Ray cluster, with one CPU each. A task whose node is lost is repeated on another one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        options = {"num_cpus": 1, "max_retries": -1, "scheduling_strategy": "SPREAD"}
        self._task = session.ray.remote(**options)(_on_node)

    def map(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        """Yield `function(item)` of each item, in order. Raises FedtempoError if one fails."""
        versions, folders = computing_versions(), search_path()[::-1]
        references = [self._task.remote(function, item, versions, folders) for item in items]
        try:
            for reference in references:
                yield self._session.ray.get(reference)
        except self._session.ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else RunError(str(error)) from None


@contextmanager
def ray_pool(address: str) -> Iterator[RayPool]:
    """Yield a pool on the cluster at an address, or on a new one of this machine if it is `LOCAL`.

    Raises ConfigError if Ray is not installed, or the cluster cannot be reached or has no CPU.
    """
    session = Session(None if address == LOCAL else address)
    try:
        if not session.room_for({"CPU": 1.0}):
            raise ConfigError(f"--ray {address}: the cluster has no CPU")
        yield RayPool(session)
    finally:
        session.close()


def _on_node(function: Callable[[S], T], item: S, versions: Versions, folders: Sequence[str]) -> T:
    """Return `function(item)`. Raises RunError as `prepare_node` does."""
    prepare_node(versions, folders)
    return function(item)


def prepare_node(versions: Versions, folders: Sequence[str]) -> None:
    """Make folders of the user's modules importable, where the node has them.

    Raises RunError on a node with other versions of what results depend on.
    """
    theirs = computing_versions()
    if theirs != versions:
        different = ", ".join(f"{name} {theirs.get(name)}" for name in versions if theirs.get(name) != versions[name])
        raise RunError(f"a node of the cluster has {different}: results would depend on the node")
    for folder in map(Path, folders):
        if folder.is_dir():
            add_folder(folder)
