"""Oort's choice of clients: Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021.

Algorithm 1 of the paper. Where the paper and its authors' implementation differ, this follows the paper, but for one
thing that the paper's sum of utility and bonus needs: utilities are brought to [0, 1] first, as the implementation
does. Arrays are (n_clients,), one entry for each client that is compared; `ids` break ties.
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
    """|B| * sqrt(mean of squared losses), B the examples that were trained."""
    return n_examples * math.sqrt(mean_squared_loss)


def examples_trained(num_examples: int, steps: int | None = None, batch_size: int = 1) -> int:
    """|B|: all examples, or those that `steps` batches reach at most."""
    return num_examples if steps is None else min(num_examples, steps * batch_size)


@dataclass(frozen=True, eq=False)
class Scores:
    """Explored clients' scores and what they are made of: score = (normalised + bonus) * penalty."""

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
    """How much the server wants each explored client in this round (Algorithm 1, lines 9 to 13).

    utility: statistical utility when last seen; what lies above the `clip_quantile` is cut to it, against outliers.
    last_round: the round in which each took part last, from 1, for the bonus of old knowledge. times: seconds of the
    last visit; slower ones than `limit_s` (T) are worth (T / time)^exponent.
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
    """Share of a round's clients that are new ones, in round 1, 2, ..."""
    return max(minimum, start * decay ** (round_number - 1))


def counts(asked: int, exploration: float, explored: int, unexplored: int) -> tuple[int, int, int]:
    """How many clients to exploit, to explore, and to add from the explored so that no fewer come than were asked for.

    explored, unexplored: how many there are. All three sum to min(asked, explored + unexplored).
    """
    exploit = min(math.floor((1 - decimal(exploration)) * asked), explored)
    explore = min(asked - exploit, unexplored)
    return exploit, explore, min(asked - exploit - explore, explored - exploit)


@dataclass(frozen=True, eq=False)
class Admitted:
    """The clients near the top. order: their positions, best first. chance: of each to be drawn first."""

    kth_score: float
    cut_off: float
    order: Positions
    chance: Floats


def admitted(score: ArrayLike, ids: ArrayLike, k: int, fraction: float) -> Admitted:
    """Whoever scores at least `fraction` of the k-th best score (1 <= k <= n_clients), with chances as the scores."""
    values = np.asarray(score, dtype=np.float64)
    order = descending(values, ids)
    kth = float(values[order[k - 1]])
    order = order[values[order] >= fraction * kth]
    total = values[order].sum()
    chance = values[order] / total if total > 0 else np.full(len(order), 1 / len(order))
    return Admitted(kth, fraction * kth, order, chance)


def draw(chance: ArrayLike, k: int, rng: np.random.Generator) -> Positions:
    """`k` different positions drawn by chance; where too few have any, all these, and others uniformly."""
    chances = np.asarray(chance, dtype=np.float64)
    possible = np.flatnonzero(chances > 0)
    if len(possible) >= k:
        return rng.choice(len(chances), k, replace=False, p=chances)
    drawn: Positions = rng.choice(np.flatnonzero(chances == 0), k - len(possible), replace=False)
    return np.concatenate([possible, drawn])


def exploitation(score: ArrayLike, ids: ArrayLike, k: int, fraction: float, rng: np.random.Generator) -> Positions:
    """Positions of `k` explored clients (Algorithm 1, lines 14 and 15)."""
    if not k:
        return np.empty(0, dtype=np.int64)
    top = admitted(score, ids, k, fraction)
    return top.order[draw(top.chance, k, rng)]


def speed_chances(times: ArrayLike) -> Floats:
    """Chance of each unexplored client to be drawn first, as its speed: 1 / time. times: seconds, as estimated.

    What is below a nanosecond counts as one.
    """
    speeds = 1 / np.maximum(np.asarray(times, dtype=np.float64), _SHORTEST_S)
    chances: Floats = speeds / speeds.sum()
    return chances


def utility_fell(history: Sequence[float], window: int) -> bool:
    """Whether the last `window` rounds brought less statistical utility than the `window` rounds before them.

    The pacer then gives slow clients more time, T += step (Algorithm 1, lines 7 and 8, which ask before every round).
    history: sum of utilities in each finished round.
    """
    return len(history) >= 2 * window and sum(history[-2 * window : -window]) > sum(history[-window:])


def allowed(picks: ArrayLike, most: int | None, asked: int) -> Positions:
    """Positions, ascending, of clients that were picked less than `most` times (no limit with None).

    Where these are fewer than `asked`, the others join, those picked least first: a small pool never dries up.
    """
    picked = np.asarray(picks)
    if most is None:
        return np.arange(len(picked))
    order = np.argsort(picked, kind="stable")
    return np.sort(order[: max(int((picked < most).sum()), asked)])
