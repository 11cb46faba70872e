"""What the tables of CS-GD make of measured rounds: the share that clusters save."""

from __future__ import annotations

import math

from fedtempo.experiments.csgd import saved
from fedtempo.experiments.reproduction import Verdict


def test_the_share_of_rounds_that_clusters_save_is_judged_against_the_papers() -> None:
    row = saved("q", (186, 273), (31, 46))
    assert (row.paper, row.measured, row.ratio) == ("186 (32% saved)", "31 (33% saved)", "1.02")
    assert row.verdict is Verdict.REACHED
    assert saved("q", (178, 189), (25, 26)).verdict is Verdict.REACHED  # 6 % and 4 %: within five points
    assert saved("q", (131, 273), (40, 46)).verdict is Verdict.DIRECTION
    assert saved("q", (109, 152), (24, 24)).verdict is Verdict.NOT_REACHED


def test_clusters_that_get_there_where_one_does_not_go_in_the_papers_direction() -> None:
    assert saved("q", (131, 273), (40, math.inf)).verdict is Verdict.DIRECTION
    assert saved("q", (131, 273), (math.inf, 46)).verdict is Verdict.NOT_REACHED
    assert saved("q", (131, 273), (math.inf, math.inf)).verdict is Verdict.NOT_REACHED
