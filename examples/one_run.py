"""Run one strategy from Python, print its curve as a table, and save a figure."""

from __future__ import annotations

from pathlib import Path

from fedtempo import Experiment, Result


def main(folder: Path = Path("example-one-run"), horizon_s: float = 300.0) -> Result:
    experiment = Experiment(
        strategy="fedhusky",
        fleet={"preset": "fedhusky"},  # visits of 1 to 10 s, a server in the air above the clients
        data={"source": "digits", "clients": 20, "examples_per_client": 40, "tell_labels": True},
        training={"lr": 0.3, "batch_size": 5},
        run={"horizon": horizon_s, "target_accuracy": 0.8},
        executor="inline",
    ).with_({"strategy.clusters": "labels"})

    result = experiment.run()
    print(result)
    print(result.curve().tail(3))
    print(result.clients().sort_values("busy_ratio").head(3))

    folder.mkdir(exist_ok=True)
    result.save_figure("accuracy", folder / "accuracy.png")
    experiment.save(folder / "experiment.toml")  # for `fedtempo run`
    return result


if __name__ == "__main__":
    main()
