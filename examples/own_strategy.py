"""Write a strategy in a dozen lines, and compare it with others on two seeds."""

from __future__ import annotations

from dataclasses import dataclass

from fedtempo import Comparison, Experiment, Federation


@dataclass(frozen=True)
class FastestFirst:
    """Train only the fastest clients."""

    count: int = 5

    async def run(self, fed: Federation) -> None:
        while True:
            fastest = sorted(fed.clients, key=lambda client: fed.estimate(client).visit_s)[: self.count]
            updates = await fed.train_all(fastest, fed.model)
            fed.commit(await fed.average(updates))


def main(horizon_s: float = 200.0) -> Comparison:
    experiment = Experiment(
        strategy=FastestFirst(count=4),
        fleet="fedhusky",
        data={"source": "digits", "clients": 20, "examples_per_client": 40, "partition": {"kind": "iid"}},
        training={"lr": 0.3, "batch_size": 10},
        run={"horizon": horizon_s, "target_accuracy": 0.8},
        executor="inline",
        compare={"everybody": {"strategy.name": "fedavg"}},
    )
    comparison = experiment.compare([experiment.config.strategy_name, "everybody", "fedbuff"], seeds=[1, 2])
    print(comparison)
    print(comparison.table()[["strategy", "time_to_target_s", "busy_ratio", "moved_bytes"]])
    return comparison


if __name__ == "__main__":
    main()
