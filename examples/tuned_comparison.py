"""Compare strategies fairly: tune the learning rate of each on a seed that the comparison does not use."""

from __future__ import annotations

from pathlib import Path

from fedtempo import Comparison, Experiment

STRATEGIES = ("fedavg", "fedasync", "sequential")


def main(
    folder: Path = Path("example-tuned"), horizon_s: float = 200.0, lr: tuple[float, float] = (1.0, 0.03)
) -> Comparison:
    experiment = Experiment(
        strategy="fedavg",
        fleet="psfl-uniform",
        data={"source": "digits", "clients": 15, "examples_per_client": 40},
        model={"network": "logistic"},
        training={"batch_size": 10},
        run={"horizon": horizon_s, "target_accuracy": 0.8},
        executor="inline",
    )
    tuning = experiment.tune(STRATEGIES, lr, seeds=[101])
    print(tuning.table())
    print(tuning.best)

    # With a folder, this writes what `fedtempo compare` writes (runs, comparison.json, report.html) and can be resumed.
    comparison = tuning.experiment.compare(STRATEGIES, seeds=range(1, 3), folder=folder)
    print(comparison.headline)
    return comparison


if __name__ == "__main__":
    main()
