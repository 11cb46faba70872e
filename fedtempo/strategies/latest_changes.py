"""The latest change of each client, which stands for the client in rounds that it misses."""

from __future__ import annotations

from collections.abc import Sequence

from fedtempo.federation import Federation, Model, Update, Vector


class LatestChanges:
    """The latest change h_k of each client k, 0 at first, and the sum of share_k * h_k.

    With clusters, k is a cluster, and h_k the mean of the latest changes that a round brought from it. The server keeps
    one model-sized vector for each k that has reported.
    """

    def __init__(self, shares: Sequence[float], cluster: Sequence[int] | None = None) -> None:
        """Arguments: share_k of each k; the k of each client (default: the client's id)."""
        self._shares, self._cluster = shares, cluster
        self._latest: dict[int, Model] = {}
        self._total: Model | float = 0.0

    async def step(
        self,
        fed: Federation,
        updates: Sequence[Update],
        weights: Sequence[float],
        *,
        stale: float = 1.0,
        lr: float = 1.0,
    ) -> Model:
        """Return the next model after a round that brought changes d_i, from clients i of k(i), and remember them:

        w + lr * (stale * sum over k of share_k h_k + sum over i of weight_i (d_i - stale * h_k(i))).

        Running statistics move to those of the updates by the same weights, at most all the way.
        """
        owners = [update.client.id if self._cluster is None else self._cluster[update.client.id] for update in updates]
        reported = list(dict.fromkeys(owners))
        reach = lr * sum(weights)
        scale = lr / max(1.0, reach)
        stepped, self._total, *latest = await fed.on_server(
            remembering_step,
            fed.model,
            statistics_from={
                fed.model: max(0.0, 1.0 - reach),
                **{update.model: scale * weight for update, weight in zip(updates, weights)},
            },
            starts=[update.received for update in updates],
            ends=[update.model for update in updates],
            weights=weights,
            owners=[reported.index(owner) for owner in owners],
            remembered=[self._latest.get(owner, 0.0) for owner in reported],
            shares=[self._shares[owner] for owner in reported],
            total=self._total,
            stale=stale,
            lr=lr,
        )
        self._latest.update(zip(reported, latest))
        model: Model = stepped
        return model


def remembering_step(
    model: Vector,
    *,
    starts: Sequence[Vector],
    ends: Sequence[Vector],
    weights: Sequence[float],
    owners: Sequence[int],
    remembered: Sequence[Vector | float],
    shares: Sequence[float],
    total: Vector | float,
    stale: float,
    lr: float,
) -> tuple[Vector, ...]:
    """Return the next model, the new total, and the new latest change of each owner (`LatestChanges.step`).

    weights, owners: of each change; an owner is a position in `remembered` and `shares`.
    """
    changes = [end - start for start, end in zip(starts, ends)]
    direction = stale * total
    for change, weight, owner in zip(changes, weights, owners):
        direction = direction + weight * (change - stale * remembered[owner])
    latest = []
    for position, (old, share) in enumerate(zip(remembered, shares)):
        of_owner = [change for change, owner in zip(changes, owners) if owner == position]
        mean = sum(of_owner[1:], of_owner[0]) / len(of_owner)
        total = total + share * (mean - old)
        latest.append(mean)
    return model + lr * direction, total, *latest
