"""Recommend a strategy for a fleet from short trainings, with its cost and what would change the answer."""

from __future__ import annotations

from fedtempo import Advice, Experiment


def main(horizon_s: float = 400.0, budget: int = 100) -> Advice:
    experiment = Experiment(
        strategy="fedavg",
        fleet={
            "compute": {"unit": "s/example", "kind": "exponential", "mean": 0.05, "watts": 4.0},
            "link": {"kind": "rates", "download_bps": 8e6, "upload_bps": 1e6, "watts": 1.5},
            "estimates": "exact",
        },
        data={"source": "digits", "clients": 15, "examples_per_client": 40},
        model={"network": "logistic"},
        training={"lr": 0.1, "batch_size": 10},
        run={"horizon": horizon_s, "target_accuracy": 0.75},
    )
    advice = experiment.advise(["fedavg", "fedbuff", "fedasync", "sequential"], budget=budget)
    print(advice)
    print(advice.table())
    print(advice.toml())
    return advice


if __name__ == "__main__":
    main()
