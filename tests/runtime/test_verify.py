"""Impossible records are rejected; those of simulations pass (`tests/runtime/world.py` always checks them)."""

from __future__ import annotations

from typing import Any

import pytest

from fedtempo.errors import RunError
from fedtempo.record.recorder import VisitRow
from fedtempo.runtime.verify import Verified


@pytest.fixture
def recorder() -> Any:
    recorder = Verified(None, n_clients=2, horizon_s=100.0)
    recorder.fact("size_bytes", 8)
    yield recorder
    recorder.close()


def visit(recorder: Verified, number: int, start: float, end: float, **other: Any) -> None:
    """Record a visit of client 0 and its transfer."""
    if other.pop("sends", True):
        recorder.traffic(up=other.pop("size", 8))
    fields = {
        "client": 0,
        "base_version": 0,
        "queued": start,
        "received": start,
        "computed": end,
        "outcome": "done",
        "examples": 5,
        **other,
    }
    recorder.visit(
        VisitRow(
            number,
            fields["client"],
            None,
            fields["base_version"],
            fields["queued"],
            start,
            fields["received"],
            fields["computed"],
            end,
            fields["outcome"],
            fields["examples"],
            None,
        )
    )


def test_possible_records_pass(recorder: Verified) -> None:
    recorder.traffic(down=8)
    visit(recorder, 1, 0.0, 5.0)
    visit(recorder, 3, 1.0, 5.0, client=1, outcome="unavailable", sends=False)
    recorder.commit(1, 5.0, 0)
    visit(recorder, 2, 5.0, 100.0, base_version=1)
    recorder.evaluation(5.0, 0, 0.1, 2.0)
    recorder.evaluation(10.0, 1, 0.2, 1.0)
    recorder.complete(0)


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (lambda r: (visit(r, 1, 0, 5), visit(r, 2, 1, 4, client=1)), "visit 2 ends at 4 s, after 5 s"),
        (lambda r: visit(r, 1, 0.0, 100.5), "before the horizon at 100.0 s"),
        (lambda r: visit(r, 1, 3.0, 5.0, received=2.0), "the phases of visit 1 are at"),
        (lambda r: visit(r, 1, 3.0, 5.0, queued=4.0), "the phases of visit 1 are at"),
        (lambda r: (visit(r, 1, 0, 5), visit(r, 1, 5, 6)), r"visit 1 ends twice \(done\)"),
        (lambda r: (visit(r, 1, 0, 5), visit(r, 2, 4, 6)), "visit 2 of client 0 began at 4 s, before its last"),
        (lambda r: visit(r, 1, 0, 5, base_version=1), "visit 1 started from version 1 of 0"),
        (lambda r: visit(r, 1, 0, 5, sends=False), r"visit 1 has ended after transfers of \[\] bytes"),
        (lambda r: visit(r, 1, 0, 5, size=7), r"visit 1 has ended after transfers of \[7\] bytes; an update has 8"),
        (lambda r: (r.traffic(relay=8), visit(r, 1, 0, 5)), r"after transfers of \[8, 8\] bytes"),
        (lambda r: r.traffic(up=-1), "bytes are sent down"),
        (lambda r: r.commit(2, 1.0, 0), "version 2 follows 0"),
        (lambda r: (visit(r, 1, 0, 5), r.commit(1, 4.0, 0)), "version 1 is committed at 4.0 s, after 5 s"),
        (lambda r: (r.evaluation(5.0, 0, 0, 0), r.evaluation(4.0, 0, 0, 0)), "version 0 is evaluated at 4.0 s"),
        (lambda r: r.evaluation(5.0, 1, 0, 0), "version 1 is evaluated at 5.0 s"),
        (lambda r: r.complete(2), "2 visits are in progress after the run's end"),
    ],
)
def test_impossible_records_are_rejected_with_the_reason(recorder: Verified, happens: Any, says: str) -> None:
    with pytest.raises(RunError, match=f"inconsistent records: .*{says}"):
        happens(recorder)


def test_a_model_without_parameters_passes(recorder: Verified) -> None:
    recorder.fact("size_bytes", 0)
    recorder.traffic(down=0)
    visit(recorder, 1, 0, 5, size=0)
