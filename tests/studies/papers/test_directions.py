"""The directions of four papers' claims on small data: medians over seeds, with the settings that the tuning found."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedtempo.runs.config import Config
from fedtempo.studies.papers.directions import CLUSTERS, TAILS, classes_uploaded
from fedtempo.studies.papers.panels import final_accuracies, late_accuracies, median_to, round_times, target
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import Request
from fedtempo.studies.tuning.study import Study, plain_study

SEEDS = (1, 2, 3, 4, 5)


def small(paper: str, folder: Path, *sets: str) -> Config:
    return Request("small", folder).settings(f"{paper}-direction", sets)


def played(config: Config, labels: Sequence[str], seeds: Sequence[int] = SEEDS) -> Study:
    return plain_study(config, labels, seeds, workers=1)


@pytest.mark.parametrize("paper", ["psfl", "fch", "csgd", "hybrid-fl"])
def test_each_paper_has_a_direction(paper: str, tmp_path: Path) -> None:
    assert f"{paper}/direction" in EXHIBITS
    budget = Request("small", tmp_path).budget(f"{paper}-direction")
    config = small(paper, tmp_path)
    for label in config.variants:  # the rates that are fixed there are of the grid that they were tuned on
        assert config.for_comparison(label).training.lr in budget.lr


def test_psfl_and_its_competitors_train_equally_many_clients_per_round(tmp_path: Path) -> None:
    given = small("psfl", tmp_path).variants
    for label, clients in (("psfl", 20), ("psfl-short", 20), ("psfl-short-50", 50)):
        strategy = given[label]["strategy"]
        assert strategy["width"] * strategy["length"] == clients
    assert given["fedavg"]["strategy"]["clients_per_round"] == 20
    assert given["fedavg-50"]["strategy"]["clients_per_round"] == 50


def test_uploaded_classes_are_those_of_consenting_clients(tmp_path: Path) -> None:
    config = small("hybrid-fl", tmp_path)
    assert classes_uploaded(config.with_changes({"data.share_examples": 0.01}), 1) == 1  # one client, one class
    assert classes_uploaded(config.with_changes({"data.share_examples": 1.0}), 1) == 10


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "-50"])
def test_sequences_of_two_reach_the_target_sooner_than_parallel_and_sequential_training(
    suffix: str, tmp_path: Path
) -> None:
    config = small("psfl", tmp_path, "run.stop_at_target=true")
    study = played(config, [f"psfl-short{suffix}", f"fedavg{suffix}", "sequential"])
    psfl, fedavg, sequential = (median_to(runs, target(config)) for runs in study.records.values())
    assert psfl < fedavg
    assert psfl < sequential


@pytest.mark.slow
@pytest.mark.fashion_mnist
def test_the_adjusted_loss_ends_higher_than_plain_cross_entropy_where_all_hold_long_tails(tmp_path: Path) -> None:
    study = played(small("fch", tmp_path).with_changes(TAILS["IF = 0.05, all clients"]), ["adjusted", "plain"])
    adjusted, plain = late_accuracies(study, "adjusted"), late_accuracies(study, "plain")
    assert statistics.median(a - b for a, b in zip(adjusted, plain, strict=True)) > 0.005


@pytest.mark.slow
@pytest.mark.parametrize("slowest", ["sampled", "all"])
def test_four_clusters_need_fewer_rounds_than_one_which_are_longer_unless_all_are_waited_for(
    slowest: str, tmp_path: Path
) -> None:
    labels = [CLUSTERS[0], CLUSTERS[-1]]
    config = small("csgd", tmp_path, *(f"compare.{label}.strategy.slowest={slowest}" for label in labels))
    one, four = played(config, labels).records.values()
    assert median_to(four, target(config), "rounds") < median_to(one, target(config), "rounds")
    if slowest == "all":
        assert round_times(four) == pytest.approx(round_times(one), rel=1e-9)
    else:
        assert all(longer > shorter for longer, shorter in zip(round_times(four), round_times(one), strict=True))


@pytest.mark.slow
def test_twenty_clients_that_upload_lift_hybrid_fl_above_fedcs_with_one_class_a_client(tmp_path: Path) -> None:
    config = small("hybrid-fl", tmp_path, "data.share_examples=0.2")
    study = played(config, ["hybrid-fl", "fedcs"], (1, 2, 3))
    hybrid, fedcs = (statistics.median(final_accuracies(study, label)) for label in ("hybrid-fl", "fedcs"))
    assert hybrid > fedcs + 0.2
