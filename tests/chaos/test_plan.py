"""The plan of chaos: one number decides everything, and everything comes up."""

from __future__ import annotations

from collections import Counter

from fedtempo.strategies import STRATEGIES
from tests.chaos.plan import EXECUTORS, FATAL, KINDS, POINTS, SHARES, trial


def test_a_number_stands_for_one_plan() -> None:
    assert [trial(7, number) for number in range(20)] == [trial(7, number) for number in range(20)]
    assert [trial(7, number).faults for number in range(20)] != [trial(8, number).faults for number in range(20)]


def test_all_kinds_strategies_and_executors_come_up() -> None:
    trials = [trial(1, number) for number in range(250)]
    kinds = Counter((one.where, fault.kind) for one in trials for fault in one.faults)
    assert {kind for _, kind in kinds} == set(KINDS)
    assert {one.where for one in trials} == set(SHARES)
    for where in ("simulation", "deployment"):
        assert {one.strategy for one in trials if one.where == where} == set(STRATEGIES)
    assert {one.executor for one in trials} == {*EXECUTORS, "loopback", "Flower"}
    assert {fault.at for one in trials for fault in one.faults} == {*POINTS, "call"}


def test_a_life_ends_with_its_fatal_fault() -> None:
    for number in range(50):
        planned = trial(2, number)
        lives = planned.lives()
        assert sum(map(len, lives)) + len(planned.around()) == len(planned.faults)
        for faults in lives:
            assert all(fault.kind not in FATAL for fault in faults[:-1])
        assert all(faults[-1].kind in FATAL for faults in lives[:-1])
