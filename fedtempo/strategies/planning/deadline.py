"""Choice of the clients that train in a round with a deadline (FedCS, Hybrid-FL Algorithm 1).

In a round the model is multicast to all chosen clients at the rate of the slowest; they compute in parallel and upload
one after the other in the order in which they were chosen. The greedy choice adds the client that lengthens the round
least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

Imbalance = Literal["printed", "true"]


@dataclass(frozen=True)
class Step:
    """A decision. increase_s, score: the candidate's T_inc and f. distribution_s, busy_s: T^d and Theta afterwards."""

    candidate: int
    accepted: bool
    increase_s: float
    score: float
    distribution_s: float
    busy_s: float


@dataclass(frozen=True)
class Selection:
    """The chosen clients and the expected course of the round. Candidates are positions in the given arrays.

    steps: one decision per candidate, in order. uploads: (candidate, begin, end) of each upload, seconds from the start
    of the round. distribution_s: T^d, until the chosen clients have the model. busy_s: Theta, from then to the end of
    the last upload. window_s: from then to the begin of the first upload; None if no client was chosen.
    """

    steps: tuple[Step, ...]
    uploads: tuple[tuple[int, float, float], ...]
    distribution_s: float
    busy_s: float
    window_s: float | None

    @property
    def chosen(self) -> list[int]:
        """Chosen candidates in the order of their uploads."""
        return [candidate for candidate, _, _ in self.uploads]

    @property
    def round_s(self) -> float:
        """End of the last upload, seconds from the start of the round."""
        return self.distribution_s + self.busy_s


def select_within_deadline(
    download_s: ArrayLike,
    compute_s: ArrayLike,
    upload_s: ArrayLike,
    deadline_s: float,
    *,
    class_counts: ArrayLike | None = None,
    class_counts_before: ArrayLike | None = None,
    imbalance: Imbalance = "printed",
) -> Selection:
    """Choose greedily, as FedCS does, among candidates whose visits take these seconds, each (n_candidates,).

    The candidate with the smallest f is considered next (ties: the first) and accepted if the round stays strictly
    below the deadline; a rejection is final but does not end the search. f is T_inc, the seconds by which the round
    grows (t_UD is `compute_s`, t_UL `upload_s`, T_round `deadline_s`), which about maximises the number of clients;
    with `class_counts` it is T_inc * CV(N_r) (Hybrid-FL's minCV).

    class_counts: (n_candidates, n_classes), examples that each holds. class_counts_before: (n_classes,), examples of
    all clients that trained in earlier rounds (default: zeros). imbalance: CV, see `imbalances`.

    f changes only with an acceptance, so the cost is n_accepted * n_candidates (* n_classes) additions.
    """
    download, compute, upload = (np.asarray(times, dtype=np.float64) for times in (download_s, compute_s, upload_s))
    counts = None if class_counts is None else np.asarray(class_counts, dtype=np.int64)
    total: Counts = np.zeros(0 if counts is None else counts.shape[1], dtype=np.int64)
    if class_counts_before is not None:
        total = total + np.asarray(class_counts_before, dtype=np.int64)
    left = np.arange(len(download))
    distribution = busy = 0.0
    steps: list[Step] = []
    sent: list[tuple[int, float, float]] = []
    while left.size:
        slowest = np.maximum(distribution, download[left])
        increase = slowest - distribution + upload[left] + np.maximum(0.0, compute[left] - busy)
        score = increase if counts is None else increase * imbalances(total + counts[left], imbalance)
        order = np.array([score.argmin()])
        if not distribution + busy + increase[order[0]] < deadline_s:  # rare; otherwise no order is needed
            order = np.argsort(score, kind="stable")
        fits = distribution + busy + increase[order] < deadline_s
        n_refused = int(fits.argmax()) if fits.any() else len(order)
        steps.extend(
            Step(int(left[i]), False, float(increase[i]), float(score[i]), distribution, busy)
            for i in order[:n_refused]
        )
        for i in order[n_refused : n_refused + 1]:
            candidate = int(left[i])
            begin = max(busy, float(compute[candidate]))
            distribution, busy = float(slowest[i]), begin + float(upload[candidate])
            steps.append(Step(candidate, True, float(increase[i]), float(score[i]), distribution, busy))
            sent.append((candidate, begin, busy))
            if counts is not None:
                total = total + counts[candidate]
        left = np.delete(left, order[: n_refused + 1])
    uploads = tuple((candidate, distribution + begin, distribution + end) for candidate, begin, end in sent)
    return Selection(tuple(steps), uploads, distribution, busy, window_s=sent[0][1] if sent else None)


def imbalances(counts: ArrayLike, kind: Imbalance = "printed") -> Floats:
    """Return how unequal the classes' numbers of examples are; counts: (..., n_classes). 0 without examples.

    "printed": variance over mean (Hybrid-FL, Eq. 1), which grows with the amount of data and so favours clients with
    little data. "true": the coefficient of variation, standard deviation over mean. Both are quotients of whole
    numbers, so that equal data give equal values and balanced data 0.
    """
    n = np.asarray(counts, dtype=np.int64)
    n_classes = n.shape[-1]
    total = n.sum(axis=-1)
    spread = n_classes * (n * n).sum(axis=-1) - total * total  # n_classes^2 times the variance
    divisor = np.maximum(total, 1)
    values: Floats = spread / (n_classes * divisor) if kind == "printed" else np.sqrt(spread) / divisor
    return values
