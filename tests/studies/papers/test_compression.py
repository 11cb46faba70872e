"""The study of compression: its settings, its statistics on values worked out by hand, its page and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies import FedAvg, FedBuff
from fedtempo.studies.papers.cells import Cell, Contest, read_contest
from fedtempo.studies.papers.compression import compression_page, with_bytes_to_target
from fedtempo.studies.papers.compression_costs import CellCosts, Transfers, costs_of, megabytes_until, transfers_of
from fedtempo.studies.papers.compression_figures import draw_costs
from fedtempo.studies.papers.contest_results import CellResult, ContestResults
from fedtempo.studies.papers.race import Race, config_of
from fedtempo.studies.papers.reproduction import SCALES, Request
from tests.studies.papers.contests import cell_result, results_of
from tests.studies.papers.repeated import results_of_two_runs

# Settings


def contest_of(scale: Any) -> Contest:
    return read_contest(Request(scale, Path()), "compression")


def cells_of(scale: Any) -> dict[str, Cell]:
    return {cell.name: cell for cell in contest_of(scale).cells}


@pytest.mark.parametrize("scale", SCALES)
def test_every_compression_tries_the_same_learning_rates_and_is_usable(scale: Any) -> None:
    for cell in cells_of(scale).values():
        assert not set(cell.budget.seeds) & set(cell.budget.tuning_seeds)
        for label in cell.points:
            assert cell.settings(label) == [{"training.lr": lr} for lr in cell.budget.lr]
            assert cell.base.for_comparison(label).with_changes(cell.settings(label)[0], label=label).label == label


def test_compressions_are_compared_on_two_fleets_with_two_strategies() -> None:
    cells = cells_of("full")
    targets, fashion = ["target", "target-fashion-mnist"], ["uav-fedavg-fashion-mnist"]
    assert list(cells) == [*targets, "uav-fedavg", "lte-fedavg", "uav-fedbuff", "lte-fedbuff", *fashion]
    for name, cell in cells.items():
        assert cell.target_of == (targets[1] if name in (targets[1], *fashion) else targets[0])
        assert cell.base.fleet.preset == ("fedcs-lte" if name.startswith("lte") else "fedhusky")
        strategy = FedBuff(clients_at_once=10) if name.endswith("fedbuff") else FedAvg(clients_per_round=10)
        assert {cell.base.for_comparison(label).strategy for label in cell.points} == {strategy}
    labels = list(cells["uav-fedavg"].points)
    compressed = [cells["uav-fedavg"].base.for_comparison(label).server.compression for label in labels]
    assert labels[0] == "none"
    assert compressed[0] is None
    assert None not in compressed[1:]


def test_at_medium_scale_five_seeds_are_compared_and_three_tune_and_nothing_is_downloaded() -> None:
    cells = cells_of("medium")
    assert list(cells) == ["target", "uav-fedavg", "lte-fedavg"]
    assert list(cells["target"].points) == ["fedavg"]
    assert {(len(cell.budget.seeds), len(cell.budget.tuning_seeds)) for cell in cells.values()} == {(5, 3)}
    assert {cell.data for cell in cells.values()} == {"digits"}


# Bytes


def test_bytes_of_a_visit_by_hand() -> None:
    """64 * 64 + 64 + 64 * 10 + 10 = 4,810 parameters, in 1.7 MB.

    1 % are 49 entries of 8 bytes. With 8 bits there are 10 norms of 4 bytes, and a byte for each parameter.
    """
    base = cells_of("medium")["uav-fedavg"].base
    top_k, quantized = round(1_700_000 * 49 * 8 / (4 * 4810)), round(1_700_000 * (4810 + 40) / (4 * 4810))
    sizes = {label: transfers_of(base.for_comparison(label)) for label in ("none", "top-k-1", "top-k-1-8-bit")}
    assert sizes == {
        "none": (1_700_000, 1_700_000),
        "top-k-1": (1_700_000, top_k),
        "top-k-1-8-bit": (quantized, top_k),
    }
    assert sizes["top-k-1"].words == "1,700 kB down and 35 kB up per visit"
    assert sizes["top-k-1"].share_of(sizes["none"]) == pytest.approx((1_700_000 + top_k) / 3_400_000)


def test_megabytes_until_a_time_by_hand() -> None:
    """Rounds of 2 clients take 1 s down, 2 s training and 3 s up: at 10 s there were two downloads and one upload."""
    config = parse(
        {
            "run": {"horizon": 60.0},
            "data": {"source": "digits", "clients": 2, "examples_per_client": 5},
            "model": {"network": "logistic", "size_bytes": 1_000_000},
            "fleet": {
                "compute": {"unit": "s/visit", "speed": 2.0},
                "link": {"kind": "fixed", "download_s": 1.0, "upload_s": 3.0},
                "estimates": "exact",
            },
            "strategy": {"name": "fedavg"},
        }
    )
    assert megabytes_until(config, 10.0) == 2 * 2 + 2 * 1


def test_megabytes_count_until_the_target_and_are_those_of_a_run_with_training() -> None:
    cell = cells_of("small")["uav-fedavg"]
    contest = Contest({}, [cell])
    tried: dict[str, Mapping[str, Any]] = {
        "none": {"times": [20.0, None], "mb": 999.0},
        "top-k-1": {"times": [None, 30.0], "mb": 999.0},
    }
    before = replace(results_of([cell_result(tried)]), cells=[replace(cell_result(tried), name=cell.name)])
    after = with_bytes_to_target(before, contest).cells[0].tried
    assert (after["none"].runs[1].mb, after["top-k-1"].runs[0].mb) == (999.0, 999.0)
    for label, seed, seconds in (("none", 1, 20.0), ("top-k-1", 2, 30.0)):
        config = config_of(Race(cell, label, None, None), {"training.lr": 0.3}, seed)
        _, records, _ = run(config.with_changes({"run.horizon": seconds}, label=label), quiet=True)
        assert after[label].runs[seed - 1].mb == round(sum(records.facts["bytes"].values()) / 1e6, 2)


# Statistics


def made_up(tried: Mapping[str, tuple[Sequence[float | None], Sequence[float]]]) -> ContestResults:
    """Results of one cell. tried: times (s) and megabytes, one each per seed, by label; without compression first."""
    cell = cell_result({label: {"times": times} for label, (times, _) in tried.items()})
    results = {}
    for label, (_, sent) in tried.items():
        runs = [replace(run, mb=mb) for run, mb in zip(cell.tried[label].runs, sent, strict=True)]
        results[label] = replace(cell.tried[label], runs=runs)
    return replace(results_of([cell]), cells=[replace(cell, tried=results)])


def costs(tried: Mapping[str, tuple[Sequence[float | None], Sequence[float]]]) -> CellCosts:
    (cell,) = costs_of(made_up(tried))
    return cell


TIMES = [10.0, 20.0, 40.0]
TRIED: dict[str, tuple[Sequence[float | None], Sequence[float]]] = {
    "none": (TIMES, [100.0, 200.0, 400.0]),
    "small": ([20.0, 40.0, 80.0], [25.0, 50.0, 100.0]),
    "never": ([None] * 3, [1.0, 2.0, 4.0]),
    "same": (TIMES, [150.0, 200.0, 300.0]),
}


def test_ratios_of_time_and_bytes_are_to_the_runs_without_compression_on_the_same_seed() -> None:
    none, small, never, same = costs(TRIED).costs
    assert (none.time, none.mb, none.in_time, none.in_bytes) == (None, None, "", "")
    assert small.time is not None
    assert small.mb is not None
    assert (small.time.words, small.in_time) == ("2.00 (2.00 to 2.00)", "later")
    assert (small.mb.words, small.in_bytes) == ("0.25 (0.25 to 0.25)", "fewer")
    # Logarithms ln 1.5, 0 and ln 0.75: mean ln 1.125 / 3, deviation 0.3475, error 0.2006, 4.303 of Student's.
    assert same.mb is not None
    assert same.mb.words == "1.04 (0.44 to 2.47)"
    assert (same.in_time, same.in_bytes) == ("", "")
    assert never.mb is not None
    assert never.mb.words == "> 0.01 (0.01 to 0.01)"
    assert (never.in_time, never.in_bytes) == ("", "")


def test_who_misses_the_target_is_not_said_to_need_fewer_bytes_nor_others_more_than_it() -> None:
    sent = [1.0, 2.0, 4.0]
    one_missed: Sequence[float | None] = [10.0, 20.0, None]
    assert costs({"none": (TIMES, [100.0, 200.0, 400.0]), "a": (TIMES, sent)}).costs[1].in_bytes == "fewer"
    assert costs({"none": (TIMES, [100.0, 200.0, 400.0]), "a": (one_missed, sent)}).costs[1].in_bytes == ""
    assert costs({"none": (TIMES, sent), "a": (TIMES, [100.0, 200.0, 400.0])}).costs[1].in_bytes == "more"
    assert costs({"none": (one_missed, sent), "a": (TIMES, [100.0, 200.0, 400.0])}).costs[1].in_bytes == ""


def test_a_difference_of_one_evaluation_is_not_shown() -> None:
    """Times of 10 s, evaluated every 2 s: bytes must differ by more than a fifth, too."""

    def said(sent: float) -> str:
        results = made_up({"none": ([10.0] * 3, [100.0] * 3), "a": ([10.0] * 3, [sent] * 3)})
        (cell,) = costs_of(replace(results, cells=[replace(results.cells[0], resolution_s=2.0)]))
        return cell.costs[1].in_bytes

    assert (said(83.0), said(84.0)) == ("fewer", "")


def test_megabytes_are_told_with_their_range_and_the_seeds_that_got_there() -> None:
    cell = costs(
        {
            "none": (TIMES, [1000.0, 2000.0, 4000.0]),
            "some": ([10.0, None, 20.0], [5.0, 1.0, 7.0]),
            "one": ([None, None, 20.0], [5.0, 1.0, 7.0]),
            "never": ([None] * 3, [5.0, 1.0, 7.0]),
        }
    )
    assert [cost.mb_words for cost in cell.costs] == [
        "2,000 MB (1,000 to 4,000)",
        "7 MB (2 of 3: 5 to 7)",
        "never (1 of 3: 7 to 7)",
        "never",
    ]
    assert cell.missed == ["the one one", "the never one"]


def test_a_cell_that_only_sets_the_target_is_not_compared() -> None:
    results = made_up(TRIED)
    alone = cell_result({"fedavg": {"times": [1.0]}})
    assert [each.cell for each in costs_of(replace(results, cells=[alone, *results.cells]))] == list(results.cells)


# Results


def page_of(cell: CellResult, results: ContestResults) -> str:
    sizes = {cell.name: dict.fromkeys(cell.tried, Transfers(2_000_000, 500_000))}
    sizes[cell.name][cell.first_label] = Transfers(2_000_000, 2_000_000)
    return compression_page(results, "fedtempo reproduce all/compression", sizes)


def test_the_page_says_what_is_shown_and_what_is_not(tmp_path: Path) -> None:
    results = made_up(TRIED)
    page = page_of(results.cells[0], results)
    assert (
        "| the small one | 2,000 | 500 | 62% | 40 s (20 to 80) | 2.00 (2.00 to 2.00), **later** "
        "| 50 MB (25 to 100) | 0.25 (0.25 to 0.25), **fewer** | 100 | 0.3 |"
    ) in page
    assert "| the none one | 2,000 | 2,000 | 100% | 20 s (10 to 40) | 1 | 200 MB (100 to 400) | 1 | 100 | 0.3 |" in page
    assert "\n- Shown to be later: the small one.\n" in page
    assert "\n- Not shown to be sooner or later: the never one and the same one.\n" in page
    assert "\n- Shown to need fewer bytes: the small one.\n" in page
    assert "Shown to be sooner:" not in page
    for name in ("one.svg", "two.svg", "one.png"):
        draw_costs(costs_of(results), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_page_says_if_runs_without_compression_miss_the_target() -> None:
    results = made_up({"none": ([10.0, None, 20.0], [100.0, 200.0, 400.0]), "a": (TIMES, [25.0, 50.0, 100.0])})
    assert "Without compression 2 of 3 runs reach the target" in page_of(results.cells[0], results)


@pytest.mark.slow
def test_it_runs_at_small_scale_and_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_of_two_runs("all/compression", "compression.json", tmp_path, monkeypatch)
    assert results[0] == results[1]
