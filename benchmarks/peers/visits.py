"""LeNet's visits against the peers': both do ten rounds of FedAvg over ten clients, see `work`, in turns.

Ours is a whole run each time, worker processes started and ended, recorded in memory. pfl, fluke and flgo train in one
process; Flower has as many as ours. A peer that is not installed, does not run, or does something else than the work is
a figure without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from benchmarks.figures import Figure, figure, interleaved, ratios
from benchmarks.peers.protocol import Peer, PeerError
from benchmarks.peers.work import BATCH, CLIENTS, EXAMPLES, LR, ROUNDS, TURN, VISITS
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world

GATES = {
    "visit_lenet_1p_vs_pfl": 1.25,
    "visit_lenet_2p_vs_pfl": 2.4,
    "visit_lenet_1p_vs_fluke": 1.6,
    "visit_lenet_2p_vs_fluke": 3.0,
    "visit_lenet_1p_vs_flgo": 1.6,
    "visit_lenet_2p_vs_flgo": 3.0,
    "visit_lenet_2p_vs_flower": 2.0,
    "visit_lenet_2p_vs_flower_short": 5.0,
}


def configuration(workers: int) -> Config:
    return parse(
        {
            "run": {"max_commits": ROUNDS, "evaluate_every": 1e6},
            "data": {
                "source": "benchmarks.peers.work:images",
                "options": {"train": CLIENTS * EXAMPLES, "test": 10},
                "clients": CLIENTS,
                "partition": {"kind": "iid"},
            },
            "model": {"network": "lenet"},
            "training": {"batch_size": BATCH, "lr": LR},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "processes", "workers": workers},
        }
    )


def ours(workers: int) -> Callable[[], None]:
    config = configuration(workers)
    world = build_world(config)

    def turn() -> None:
        summary, _, _ = run(config, world=world)
        assert summary["visits"] == VISITS

    return turn


def checked(peer: str, reply: Mapping[str, Any]) -> float:
    """Seconds of a turn. Raises PeerError where the turn was not the work: steps, images and a loss that falls."""
    done = {name: reply[name] for name in asdict(TURN) if name in reply}
    if done and done != asdict(TURN):
        raise PeerError(f"{peer} did {done}, asked for was {asdict(TURN)}")
    if not reply["loss_after"] < reply["loss_before"]:
        raise PeerError(f"{peer} does not learn: loss {reply['loss_before']:.4f}, then {reply['loss_after']:.4f}")
    return float(reply["seconds"])


def against(peers: Mapping[str, Peer], repetitions: int, workers: Sequence[int]) -> list[Figure]:
    """visit_lenet_{workers}p_vs_{name} for each peer; one that fails leaves the others what they measured."""
    failed: dict[str, str] = {}

    def turn(name: str, peer: Peer) -> float:
        if name in failed:
            return 0.0
        try:
            return checked(name, peer.ask())
        except PeerError as error:
            failed[name] = str(error)
            return 0.0

    ways: dict[str, Callable[[], float | None]] = {f"{count}p": ours(count) for count in workers}
    for name, peer in peers.items():
        ways[name] = lambda name=name, peer=peer: turn(name, peer)  # type: ignore[misc]
    seconds = interleaved(ways, repetitions)
    figures = []
    for name in peers:
        for count in workers:
            title = f"visit_lenet_{count}p_vs_{name}"
            if name in failed:
                figures.append(missing(title, failed[name]))
            else:
                figures.append(figure(title, ratios(seconds[name], seconds[f"{count}p"]), "x", GATES.get(title)))
    return figures


def missing(title: str, reason: str) -> Figure:
    return Figure(title, None, "x", GATES.get(title), missing=reason)


Driver = tuple[str, Sequence[str]]
"""The folder of a peer, and its driver's arguments."""


def measured(drivers: Mapping[str, Driver], repetitions: int, workers: Sequence[int]) -> list[Figure]:
    """`against` the drivers, by their names in the figures."""
    with ExitStack() as stack:
        peers, figures = {}, []
        for name, (folder, arguments) in drivers.items():
            try:
                peers[name] = stack.enter_context(Peer(folder, arguments))
            except PeerError as error:
                figures += [missing(f"visit_lenet_{count}p_vs_{name}", str(error)) for count in workers]
        return figures + (against(peers, repetitions, workers) if peers else [])


def one_process(repetitions: int = 5) -> list[Figure]:
    """pfl, fluke and flgo."""
    return measured({name: (name, ()) for name in ("pfl", "fluke", "flgo")}, repetitions, (1, 2))


def flower(repetitions: int = 5) -> list[Figure]:
    """Flower's rounds in a simulation that runs already, with one worker and with two."""
    return [
        found
        for workers in (1, 2)
        for found in measured({"flower": ("flower", (str(workers), "steady"))}, repetitions, (workers,))
    ]


def flower_short(repetitions: int = 5) -> list[Figure]:
    """Whole runs of ten rounds, Ray's start included."""
    return measured({"flower_short": ("flower", ("2", "short"))}, repetitions, (2,))
