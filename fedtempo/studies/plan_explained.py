"""Explanations beside the predictions of `fedtempo plan`: why a strategy trains as it does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedtempo.federation import Durations, Federation
from fedtempo.runs.config import Config
from fedtempo.runs.run import run
from fedtempo.runs.world import World
from fedtempo.runtime.executor_settings import ExecutorSettings
from fedtempo.strategies.csgd import CsGd
from fedtempo.strategies.planning.pipeline import Clusters, cluster_by_time, largest_n_clusters, utilisation
from fedtempo.strategies.planning.structure import Structure, StructureProblem
from fedtempo.strategies.psfl import Psfl

_ROWS = 24
_BAR = 24


def explain_plan(console: Console, config: Config, world: World) -> None:
    """Print what explains the configured strategy's schedule; nothing for most strategies."""
    structure, pipeline = explained_structure(config, world), explained_pipeline(config, world)
    if structure is not None:
        console.print(structure_table(*structure))
    if pipeline is not None:
        console.print(pipeline_table(pipeline))


def clients_in_order(world: World) -> str | None:
    """Return the clients' names in the order of lists in [fleet], each with its speed; None without names."""
    if not all(client.name for client in world.clients):
        return None
    speed = world.fleet.speed
    shown = [f"{client.name} {speed.values[client.id]:.3g}" for client in world.clients[:_ROWS]]
    more = f", ... ({len(world.clients)})" if len(world.clients) > _ROWS else ""
    return f"clients in order, {speed.unit}: {', '.join(shown)}{more}"


def explained_structure(config: Config, world: World) -> tuple[StructureProblem, Structure] | None:
    """Return PSFL's structure problem and its solution; None for other strategies, or if a warm-up decides."""
    strategy = config.strategy
    if not isinstance(strategy, Psfl) or strategy.constants is None:
        return None
    problem = strategy.problem(strategy.constants, len(world.clients))
    if strategy.width is None or strategy.length is None:
        return problem, problem.structure(strategy.rounding)
    return problem, Structure(strategy.width, strategy.length)


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """CS-GD's round as the server expects it when the run begins; times count from the start of computing.

    compute_s: of each client. server_s: what follows the last frame. channels: N.
    """

    clusters: Clusters
    compute_s: npt.NDArray[np.float64]
    upload_s: float
    extra_s: float
    server_s: float
    channels: int

    @property
    def slowest_s(self) -> float:
        return float(self.compute_s.max())

    @property
    def round_s(self) -> float:
        return self.slowest_s + self.extra_s + self.upload_s + self.server_s


def explained_pipeline(config: Config, world: World) -> Pipeline | None:
    """Return CS-GD's clusters and frames; None for other strategies."""
    strategy = config.strategy
    if not isinstance(strategy, CsGd):
        return None
    estimates = _first_estimates(config, world)
    compute_s = np.array([estimate.compute_s for estimate in estimates])
    upload_s = max(estimate.upload_s for estimate in estimates)
    server_s = config.server.seconds + max(estimate.download_s for estimate in estimates)
    found = cluster_by_time(compute_s, strategy.n_clusters, upload_s, strategy.extra_s)
    return Pipeline(found, compute_s, upload_s, strategy.extra_s, server_s, strategy.channels)


def structure_table(problem: StructureProblem, chosen: Structure) -> Table:
    """Eq. 21 of PSFL over whole widths, the least of all and the structure that trains marked."""
    best, clients = problem.optimum(), problem.clients_per_round
    table = _table(
        f"PSFL: {chosen.width} sequences of {chosen.length}; Eq. 21 is least at W = {best.width:.2f}, "
        f"S = {best.length:.2f}, for {clients} clients a round"
    )
    for name in ("W", "S", "Eq. 21"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    widths = _shown(clients, [best.width, chosen.width])
    values = problem.objective(widths).tolist()
    nearest = min(zip(values, widths))[1]
    for width, value in zip(widths, values):
        marks = [
            *(["least"] if width == nearest else []),
            *([f"trains, as {chosen.width} x {chosen.length}"] if width == chosen.width else []),
        ]
        bar = "█" * max(1, round(_BAR * value / max(values))) if value else ""
        style = "bold green" if marks else ""
        table.add_row(f"{width}", f"{clients / width:.2f}", f"{value:.4g}", bar, ", ".join(marks), style=style)
    return table


def _shown(most: int, marked: Sequence[float]) -> list[int]:
    """Return whole numbers from 1 to `most`, thinned to about equal ratios, with those next to the marked ones."""
    spaced = np.geomspace(1, most, _ROWS).round().astype(int).tolist()
    around = [bound(value) for value in marked for bound in (math.floor, math.ceil)]
    return sorted({*(range(1, most + 1) if most <= _ROWS else spaced), *around})


def pipeline_table(pipeline: Pipeline) -> Table:
    """The clusters of CS-GD, the hull that they come from, and a round's frames; times from the start of computing."""
    found, compute_s, upload_s, server_s = pipeline.clusters, pipeline.compute_s, pipeline.upload_s, pipeline.server_s
    round_s, n_clusters = pipeline.round_s, len(found.members)
    use = utilisation(n_clusters, upload_s, pipeline.slowest_s, server_s, pipeline.extra_s)
    alone = utilisation(1, upload_s, pipeline.slowest_s, server_s)
    served = sum(min(pipeline.channels, size) for size in found.sizes)
    largest = largest_n_clusters(compute_s, upload_s, pipeline.extra_s)
    channels = f"{pipeline.channels} sub-channel{'' if pipeline.channels == 1 else 's'}"
    table = _table(f"CS-GD: a round of {round_s:.4g} s serves {served} clients on {channels}")
    for name in ("cluster", "computing s", "done by", "done", "clients"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("a round", no_wrap=True)
    vertices = dict(found.hull)
    for k, (opens, members) in enumerate(zip(found.opens_s, found.members)):
        own = compute_s[list(members)]
        done = float(own.max()) if members else 0.0
        spans = [
            (done, "━"),
            (opens if members else 0.0, "╌"),
            (opens, " "),
            (opens + upload_s, "█" if members else "·"),
        ]
        table.add_row(
            f"{k}",
            f"{own.min():.4g} to {own.max():.4g}" if members else "-",
            f"{opens:.4g} s",
            f"{found.done[k]:,}{' *' if k + 1 in vertices else '  '}",
            f"{len(members):,}",
            _bar(spans, round_s),
        )
    table.add_row("server", "", "", "", "", _bar([(round_s - server_s, " "), (round_s, "▒")], round_s))
    if upload_s > 0:
        gain = (
            f"Full frames use {100 * use:.1f} % of the sub-channels' time, one cluster {100 * alone:.1f} %.\n"
            f"Feasible: {'any number of' if largest is None else f'up to {largest}'} clusters."
        )
    else:
        gain = "The server expects uploads to take no time, so clusters do not shorten a round."
    table.caption = Text(
        f"━ computes  ╌ waits  █ sends  ▒ server  * vertex of the lower convex hull\n{gain}", style="dim"
    )
    table.caption_justify = "left"
    return table


def _bar(spans: Sequence[tuple[float, str]], whole: float) -> str:
    """Each span's letter up to its end, on a scale of `whole`."""
    drawn = ""
    for end, letter in spans:
        drawn += letter * (round(_BAR * end / whole) - len(drawn))
    return drawn


def _first_estimates(config: Config, world: World) -> list[Durations]:
    """Return the server's estimate of each client when the run begins."""
    probe = _Probe()
    settings = dataclasses.replace(config.run, horizon=None, max_commits=1, stop_at_target=False, target_accuracy=None)
    executor = ExecutorSettings(kind="none")
    run(dataclasses.replace(config, strategy=probe, run=settings, executor=executor), world=world, quiet=True)
    return probe.estimates


class _Probe:
    """A strategy that reads the estimates and does nothing."""

    def __init__(self) -> None:
        self.estimates: list[Durations] = []

    async def run(self, fed: Federation) -> None:
        self.estimates = [fed.estimate(client) for client in fed.clients]


def _table(title: str) -> Table:
    return Table(
        title=Text(title), title_style="bold", title_justify="left", header_style="dim", box=box.SIMPLE, padding=(0, 1)
    )
