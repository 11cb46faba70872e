"""Availability that follows the time of day, and recorded availability."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.fleet.availability import AVAILABILITY, Diurnal, Trace
from tests.fleet.test_availability import check_consistent, rng
from tests.runtime.world import play


@given(
    share=st.one_of(st.floats(0.01, 0.99), st.just(1.0)),
    spread=st.floats(0.0, 1.0),
    seed=st.integers(0, 100),
    t=st.floats(0, 1e7),
)
def test_diurnal_clients_are_available_for_their_share_of_every_day(
    share: float, spread: float, seed: int, t: float
) -> None:
    there = Diurnal(share, spread=spread).build(3, rng(seed))
    for client in range(3):
        check_consistent(there, client, t)
        check_consistent(there, client, float(86_400 * round(t / 86_400)))
        begin = there.next_available(client, t)
        assert begin - t <= (1 - share) * 86_400 + 1e-6
        whole = there.available_until(client, there.next_available(client, begin + 86_400)) - (begin + 86_400)
        if share < 1:
            assert whole <= share * 86_400 + 1e-6


def test_phases_are_uniform_over_their_spread() -> None:
    n = 4000
    for spread in (1.0, 0.25):
        there = Diurnal(0.25, period_s=100.0, spread=spread).build(n, rng())
        at = np.array([[there.available_until(c, t) > t for t in (10.0, 35.0, 60.0)] for c in range(n)]).mean(axis=0)
        # A client that arrives at b is available in [b, b + 25) (mod 100): at t if b is in (t - 25, t].
        expected = [0.25, 0.25, 0.25] if spread == 1.0 else [10 / 25, 15 / 25, 0.0]
        assert np.all(np.abs(at - expected) <= 5 * np.sqrt(np.multiply(expected, 1 - np.array(expected)) / n))
    together = Diurnal(0.5, period_s=10.0, spread=0.0).build(3, rng())
    assert [together.available_until(c, 0.0) for c in range(3)] == [5.0] * 3
    assert [together.next_available(c, 7.0) for c in range(3)] == [10.0] * 3


def test_a_window_across_midnight_is_a_single_window() -> None:
    there = Diurnal(0.5, period_s=10.0).build(50, rng())
    for client in range(50):
        begin = there.next_available(client, there.available_until(client, there.next_available(client, 0.0)))
        assert there.available_until(client, begin) - begin == pytest.approx(5.0)


def test_a_share_of_a_whole_day_means_always_available() -> None:
    assert Diurnal(1.0).build(1, rng()).available_until(0, 12.0) == math.inf
    with pytest.raises(ValidationError):
        Diurnal(0.0)


def trace(tmp_path: Path, text: str) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return str(path)


def test_a_trace_from_a_file_equals_the_same_trace_inline(tmp_path: Path) -> None:
    text = "begin_s,client,end_s,more\n0,0,10,x\n30,0,35,\n5,2,8,\n8,2,9,\n"
    inline = ((0, 0.0, 10.0), (0, 30.0, 35.0), (2, 5.0, 8.0), (2, 8.0, 9.0))
    for kind in (Trace(file=trace(tmp_path, text)), Trace(intervals=inline)):
        there = kind.build(3, rng())
        assert there.available_until(0, 3.0) == 10.0
        assert there.next_available(0, 10.0) == 30.0
        assert there.next_available(0, 35.0) == math.inf
        assert there.next_available(1, 0.0) == math.inf
        assert there.available_until(2, 5.0) == 9.0
    again = Trace(intervals=inline, period_s=100.0).build(3, rng())
    assert again.next_available(0, 35.0) == 100.0


def test_clients_can_be_assigned_sampled_traces(tmp_path: Path) -> None:
    text = "client,begin_s,end_s\n" + "".join(f"phone {i},0,{i + 1}\n" for i in range(20))
    kind = Trace(file=trace(tmp_path, text), sample=True)
    few, many = kind.build(15, rng()), kind.build(200, rng())
    lengths = [few.available_until(client, 0.0) for client in range(15)]
    assert len(set(lengths)) == 15
    assert set(lengths) <= set(range(1, 21))
    assert lengths != sorted(lengths)
    assert len({many.available_until(client, 0.0) for client in range(200)}) == 20
    assert [kind.build(15, rng()).available_until(client, 0.0) for client in range(15)] == lengths


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,begin_s\n0,1\n", "has no column 'end_s'"),
        ("", "has no column 'begin_s'"),
        ("client,begin_s,end_s\n", "has no intervals"),
        ("client,begin_s,end_s\n0,1,2\n0,one,2\n", "line 3: give a client, and begin_s and end_s in seconds"),
        ("begin_s,end_s,client\n0,1\n", "line 2: give a client"),
        ("client,begin_s,end_s\n0,2,1\n", r"line 2: \[2.0, 1.0\] must have 0 <= begin < end"),
        ("client,begin_s,end_s\n0,79200,21600\n", "a window over midnight needs period_s = 86400"),
        ("client,begin_s,end_s\n0,nan,1\n", "line 2"),
        ("client,begin_s,end_s\n7,0,1\n", "client '7' is not in the fleet, 0 to 1; set sample = true"),
    ],
)
def test_invalid_traces_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trace(file=trace(tmp_path, text)).build(2, rng())


def test_invalid_inline_intervals_and_missing_files_are_rejected() -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Trace(file="/nowhere.csv").build(1, rng())
    with pytest.raises(ConfigError, match=r"intervals number 1: \[0.0, 20.0\] must lie between 0 and period_s = 10.0"):
        Trace(intervals=((0, 0.0, 1.0), (0, 0.0, 20.0)), period_s=10.0).build(1, rng())
    with pytest.raises(ValidationError, match="file, intervals: give one of them"):
        Trace()
    with pytest.raises(ValidationError, match="file, intervals: give one of them"):
        Trace(file="x", intervals=((0, 0.0, 1.0),))


def test_an_interval_may_last_over_the_end_of_the_period(tmp_path: Path) -> None:
    hour = 3600.0
    text = "client,begin_s,end_s\n0,79200,21600\n1,82800,0\n"  # 22 h to 6 h, and 23 h to 24 h
    there = Trace(file=trace(tmp_path, text), period_s=24 * hour).build(2, rng())
    assert there.available_until(0, 0.0) == 6 * hour
    assert there.next_available(0, 7 * hour) == 22 * hour
    assert there.available_until(0, 23 * hour) == 30 * hour
    assert there.next_available(1, 0.0) == 23 * hour
    assert there.available_until(1, 23 * hour) == 24 * hour


def test_names_that_are_numbers_are_names_in_a_file(tmp_path: Path) -> None:
    kind = Trace(file=trace(tmp_path, "\ufeffclient,begin_s,end_s\n1,10,20\n2,20,30\n"))
    named = kind.for_clients(["1", "2", "3"]).build(3, rng())
    assert [named.next_available(client, 0.0) for client in range(3)] == [10.0, 20.0, math.inf]
    numbered = kind.for_clients(["0", "1", "2"]).build(3, rng())
    assert [numbered.next_available(client, 0.0) for client in range(3)] == [math.inf, 10.0, 20.0]
    inline = Trace(intervals=((1, 10.0, 20.0),)).for_clients(["1", "2", "3"]).build(3, rng())
    assert [inline.next_available(client, 0.0) for client in range(3)] == [math.inf, 10.0, math.inf]


def test_a_run_follows_its_trace() -> None:
    seen = []

    async def script(fed: Federation) -> None:
        for start in (0.0, 6.0, 20.0):
            await fed.sleep_until(start)
            try:
                seen.append((await fed.train(fed.clients[0], fed.model)).finished)
            except ClientUnavailable:
                seen.append(None)

    availability = {"kind": "trace", "intervals": [[0, 0.0, 10.0], [0, 20.0, 30.0], [1, 0.0, 99.0]]}
    play(script, clients=2, compute=5.0, availability=availability, horizon=100.0)
    assert seen == [5.0, None, 25.0]


def test_diurnal_and_trace_are_registered() -> None:
    assert (AVAILABILITY["diurnal"], AVAILABILITY["trace"]) == (Diurnal, Trace)
