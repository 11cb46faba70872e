"""Oort's choice of clients: Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021.

Algorithm 1 of the paper. Where the paper and its authors' implementation differ, this follows the paper, with one
exception that the paper's sum of utility and bonus requires: utilities are scaled to [0, 1] first, as in the
implementation. Arrays are (n_clients,), with one entry per compared client; `ids` break ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedtempo.strategies.planning.utility import Floats, Positions, decimal, descending, time_factor

_SHORTEST_S = 1e-9


def statistical_utility(mean_squared_loss: float, n_examples: int) -> float:
    """Return |B| * sqrt(mean squared loss), where B is the set of trained examples."""
    return n_examples * math.sqrt(mean_squared_loss)


def examples_trained(num_examples: int, steps: int | None = None, batch_size: int = 1) -> int:
    """Return |B|: all examples, or at most those in `steps` batches."""
    return num_examples if steps is None else min(num_examples, steps * batch_size)


@dataclass(frozen=True, eq=False)
class Scores:
    """Explored clients' scores and their parts: score = (normalised + bonus) * penalty."""

    clip_value: float
    clipped: Floats
    normalised: Floats
    bonus: Floats
    penalty: Floats
    score: Floats


def scores(
    utility: ArrayLike,
    last_round: ArrayLike,
    times: ArrayLike,
    *,
    round_number: int,
    limit_s: float,
    exponent: float,
    clip_quantile: float,
) -> Scores:
    """Return the score of each explored client in this round (Algorithm 1, lines 9 to 13).

    utility: statistical utility when last seen; outliers are clipped at the `clip_quantile`. last_round: the last round
    in which each participated, from 1, for the bonus of outdated knowledge. times: duration of the last visit, seconds;
    clients slower than `limit_s` (T) are multiplied by (T / time)^exponent.
    """
    values = np.asarray(utility, dtype=np.float64)
    position = min(math.floor(decimal(clip_quantile) * len(values)), len(values) - 1)
    clip_value = float(np.sort(values)[position])
    clipped = np.minimum(values, clip_value)
    spread = clipped.max() - clipped.min()
    normalised = (clipped - clipped.min()) / spread if spread > 0 else np.ones(len(values))
    bonus = np.sqrt(0.1 * math.log(round_number) / np.asarray(last_round, dtype=np.float64))
    penalty = time_factor(times, limit_s, exponent)
    return Scores(clip_value, clipped, normalised, bonus, penalty, (normalised + bonus) * penalty)


def exploration_share(round_number: int, start: float, decay: float, minimum: float) -> float:
    """Return the share of new clients in round 1, 2, ..."""
    return max(minimum, start * decay ** (round_number - 1))


def counts(wanted: int, exploration: float, explored: int, unexplored: int) -> tuple[int, int, int]:
    """Return how many clients to exploit, to explore, and to add from the explored to reach the wanted number.

    explored, unexplored: numbers of available clients. The three sum to min(wanted, explored + unexplored).
    """
    exploit = min(math.floor((1 - decimal(exploration)) * wanted), explored)
    explore = min(wanted - exploit, unexplored)
    return exploit, explore, min(wanted - exploit - explore, explored - exploit)


@dataclass(frozen=True, eq=False)
class Admitted:
    """The eligible clients. order: their positions, best first. chance: each client's chance to be drawn first."""

    kth_score: float
    cut_off: float
    order: Positions
    chance: Floats


def admitted(score: ArrayLike, ids: ArrayLike, k: int, fraction: float) -> Admitted:
    """Return the clients with at least `fraction` of the k-th best score, with chances proportional to scores.

    k: 1..n_clients.
    """
    values = np.asarray(score, dtype=np.float64)
    order = descending(values, ids)
    kth = float(values[order[k - 1]])
    order = order[values[order] >= fraction * kth]
    total = values[order].sum()
    chance = values[order] / total if total > 0 else np.full(len(order), 1 / len(order))
    return Admitted(kth, fraction * kth, order, chance)


def draw(chance: ArrayLike, k: int, rng: np.random.Generator) -> Positions:
    """Draw `k` different positions by chance; if too few have one, take these and draw the rest uniformly."""
    chances = np.asarray(chance, dtype=np.float64)
    possible = np.flatnonzero(chances > 0)
    if len(possible) >= k:
        return rng.choice(len(chances), k, replace=False, p=chances)
    drawn: Positions = rng.choice(np.flatnonzero(chances == 0), k - len(possible), replace=False)
    return np.concatenate([possible, drawn])


def exploitation(score: ArrayLike, ids: ArrayLike, k: int, fraction: float, rng: np.random.Generator) -> Positions:
    """Draw the positions of `k` explored clients (Algorithm 1, lines 14 and 15)."""
    if not k:
        return np.empty(0, dtype=np.int64)
    top = admitted(score, ids, k, fraction)
    return top.order[draw(top.chance, k, rng)]


def speed_chances(times: ArrayLike) -> Floats:
    """Return each unexplored client's chance to be drawn first, proportional to its speed, 1 / time.

    times: estimates, seconds; values below a nanosecond count as one.
    """
    speeds = 1 / np.maximum(np.asarray(times, dtype=np.float64), _SHORTEST_S)
    chances: Floats = speeds / speeds.sum()
    return chances


def utility_fell(history: Sequence[float], window: int) -> bool:
    """Return whether the last `window` rounds brought less statistical utility than the `window` rounds before.

    The pacer then gives slow clients more time, T += step (Algorithm 1, lines 7 and 8, checked before every round).
    history: sum of utilities in each finished round.
    """
    return len(history) >= 2 * window and sum(history[-2 * window : -window]) > sum(history[-window:])


def allowed(picks: ArrayLike, most: int | None, wanted: int) -> Positions:
    """Return the ascending positions of the clients chosen fewer than `most` times (None: no limit).

    If there are fewer than `wanted`, the others are added, least chosen first, so that a small pool never runs dry.
    """
    picked = np.asarray(picks)
    if most is None:
        return np.arange(len(picked))
    order = np.argsort(picked, kind="stable")
    return np.sort(order[: max(int((picked < most).sum()), wanted)])
