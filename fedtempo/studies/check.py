"""Check that a run has the same bits on every executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtempo.errors import Interrupted
from fedtempo.report.rendering import notebook_html
from fedtempo.runs.config import Config
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.studies.display import HIDDEN, Display

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Way:
    """One execution. executor: kind and number of workers. wall_s: real seconds."""

    executor: str
    model_sha256: str | None
    events_sha256: str
    final_accuracy: float | None
    best_accuracy: float | None
    wall_s: float

    @property
    def result(self) -> tuple[object, ...]:
        """Values that must not depend on the executor."""
        return self.model_sha256, self.events_sha256, self.final_accuracy, self.best_accuracy


@dataclass(frozen=True, repr=False)
class Check:
    """The same run on several executors. True if every bit agrees."""

    ways: Sequence[Way]

    @property
    def agree(self) -> bool:
        """Whether models, events and accuracies are the same to the bit."""
        return len({way.result for way in self.ways}) == 1

    @property
    def headline(self) -> str:
        """The result in a few words."""
        return "every bit agrees" if self.agree else "the runs differ"

    def __bool__(self) -> bool:
        return self.agree

    def table(self) -> DataFrame:
        """Return one row per execution: executor, hashes of model and events, accuracies, real seconds."""
        from dataclasses import asdict

        from fedtempo.report import frames

        return frames.frame([asdict(way) for way in self.ways])

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {'  '.join(cells)}" for cells in self.cells())])

    def __repr__(self) -> str:
        return f"<Check: {self.headline}>"

    def _repr_html_(self) -> str:
        return notebook_html(self.headline, rows=self.cells())

    def cells(self) -> list[tuple[str, str, str, str]]:
        """Return cells for people: executor, prefixes of both hashes, seconds."""
        width = max(len(way.executor) for way in self.ways)
        return [
            (f"{way.executor:<{width}}", (way.model_sha256 or "-")[:16], way.events_sha256[:16], f"{way.wall_s:.1f}")
            for way in self.ways
        ]


def check(config: Config, display: Display = HIDDEN) -> Check:
    """Run a configuration in this process, in one, two and three others, and on Ray if it asks for that.

    Raises Interrupted after Ctrl-C.
    """
    kinds = [("inline", 1), *(("processes", workers) for workers in (1, 2, 3))]
    if config.executor.kind == "ray":
        kinds += [("ray", workers) for workers in (1, 2)]
    world, ways = build_world(config), []
    for kind, workers in kinds:
        changes = {"kind": kind, "workers": workers, "device": "cpu", "reuse": False}
        executed = config.with_changes({f"executor.{key}": value for key, value in changes.items()}, label=config.label)
        with display.watching(executed) as watch:
            summary, _, _ = run(executed, world=world, watch=watch)
        if summary["ended"] == "interrupted":
            raise Interrupted("the check was interrupted")
        ways.append(
            Way(
                executor=kind if kind == "inline" else f"{kind}, {workers}",
                model_sha256=summary["model_sha256"],
                events_sha256=summary["events_sha256"],
                final_accuracy=summary["final_accuracy"],
                best_accuracy=summary["best_accuracy"],
                wall_s=summary["wall_s"],
            )
        )
    return Check(ways)
