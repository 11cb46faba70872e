"""Visits that evaluate a model and upload measurements only: times, bytes, and what clients keep."""

from __future__ import annotations

from typing import Any

import pytest

from fedtempo.errors import RunError
from fedtempo.federation import EVALUATE, Federation, Update, Work
from fedtempo.runs.run import run
from fedtempo.runtime.central import Central
from fedtempo.runtime.simulation import Simulation
from tests.runtime.test_local_parts import same_on_all_executors, small
from tests.runtime.world import play

LINK = {"kind": "rates", "download_bps": 8e6, "upload_bps": 8e6}
"""A model of 1 MB takes a second in each direction, measurements 16 microseconds."""


def reports_of(work: Work, **options: Any) -> list[Update]:
    reports: list[Update] = []

    async def run(fed: Federation) -> None:
        reports.extend(await fed.train_all(fed.clients, fed.model, work))
        assert all(report.model is fed.model for report in reports)
        await fed.sleep_until(1000.0)

    _, records = play(run, link=LINK, compute=[3.0, 6.0], clients=2, horizon=50.0, **options)
    assert records.visits["examples"].tolist() == [0] * len(records.visits["examples"])
    assert records.facts["bytes"]["up"] == 16 * len(reports)
    return reports


@pytest.mark.parametrize("each_as_a_task", [False, True])
@pytest.mark.parametrize(("scale", "computes"), [(None, 3.0), (0.5, 1.5)])
def test_its_time_and_bytes(
    each_as_a_task: bool, scale: float | None, computes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if each_as_a_task:
        monkeypatch.setattr(Simulation, "train_all", Central.train_all)
    reports = reports_of(Work(procedure=EVALUATE, epochs=1, compute_scale=scale))
    assert [report.computed for report in reports] == [1 + computes, 1 + 2 * computes]
    assert [report.finished for report in reports] == pytest.approx([1.000016 + computes, 1.000016 + 2 * computes])


def test_on_a_link_with_fixed_times_measurements_take_as_long_as_a_model() -> None:
    async def run(fed: Federation) -> None:
        update = await fed.train(fed.clients[0], fed.model, Work(procedure=EVALUATE))
        assert update.finished == 1.75
        await fed.sleep_until(1000.0)

    play(run, link={"kind": "fixed", "download_s": 0.25, "upload_s": 0.5}, compute=1.0, clients=1, horizon=5.0)


def test_estimates_are_those_of_a_training_visit() -> None:
    async def run(fed: Federation) -> None:
        await fed.train(fed.clients[0], fed.model, Work(procedure=EVALUATE, epochs=1, compute_scale=0.5))
        times = fed.estimate(fed.clients[0])
        assert (times.download_s, times.compute_s, times.upload_s) == (1.0, 3.0, 1.0)
        await fed.sleep_until(1000.0)

    estimates = {"kind": "observed", "prior_s": 7.0}
    play(run, link=LINK, compute=[3.0], clients=1, horizon=20.0, estimates=estimates)


def test_its_deadline_is_that_of_less_work() -> None:
    """Twice the estimate of 1 + 1.5 + 1 s; nobody is late, although a hanging client would be."""
    assert len(reports_of(Work(procedure=EVALUATE, compute_scale=0.5), server={"deadline": 2.0})) == 2


def test_it_needs_a_whole_visit() -> None:
    async def run(fed: Federation) -> None:
        with await fed.download(fed.clients[0], fed.model) as visit:
            await fed.compute(visit, Work(procedure=EVALUATE))

    with pytest.raises(RunError, match=r"Work\.procedure = 'evaluate': use train or train_all, not download and comp"):
        play(run)


@pytest.mark.parametrize(
    "changes",
    [{}, {"model.local": ["4.3.*"]}, {"server.compression": {"up": {"kind": "top-k", "share": 0.1}}}],
    ids=["plain", "local parts", "error feedback"],
)
def test_bits_do_not_depend_on_the_executor(changes: dict[str, Any]) -> None:
    same_on_all_executors(small({**changes, "strategy.clients_per_round": 3}, "power-of-choice"))


def test_an_evaluation_leaves_what_a_client_has_not_sent_yet() -> None:
    """With error feedback, clients that are evaluated before each training end with the same bits as without."""
    changes = {
        "server.compression": {"up": {"kind": "top-k", "share": 0.1}},
        "training.full_batch": True,
        "run.horizon": 1e9,
        "run.max_commits": 3,
        "strategy.candidates": 6,
        "strategy.clients_per_round": 6,
    }
    variants = ("pow-d", "rpow-d")
    with_pass, without = (
        run(small({**changes, "strategy.variant": variant}, "power-of-choice"))[0] for variant in variants
    )
    assert with_pass["visits"] == 2 * without["visits"] == 36
    assert with_pass["model_sha256"] == without["model_sha256"]
