"""Whatever a client replies is its own failure or bad update: the run goes on, and its folder can be read."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedtempo import open_run
from fedtempo.api.reports import report_runs
from fedtempo.deploy.live import joining
from fedtempo.deploy.live.bounds import BadUpdate, object_of
from fedtempo.deploy.live.joining import Admission, wait_for_clients
from fedtempo.deploy.live.messages import Call, Grid, Reply
from fedtempo.deploy.live.npy import array_of
from fedtempo.deploy.live.replies import answer_of, read_training, read_update
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import ClientUnavailable, Federation, Work
from fedtempo.learning.sections import Sections
from fedtempo.learning.training import Training
from fedtempo.record import load_run
from fedtempo.runs.run import run
from fedtempo.version import PROTOCOL
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients
from tests.deploy.live.mutations import VALUES, mutated_reply

LIAR, STRANGER = 102, 103
"""The node of the third client of the run, and of one that is not among its clients."""

EXACT: dict[str, Any] = {"statistics": {"loss": 1.0}, "num_examples": 20, "compute_s": 0.1}


def digits_and_strangers() -> Loopback:
    return Loopback([*digits_clients(3, share_examples=True), *digits_clients(1, tell_labels=True)])


async def rounds(fed: Federation, clients: int, count: int) -> None:
    """Train the first clients in rounds."""
    for _ in range(count):
        fed.commit(await fed.average(await fed.train_all(fed.clients[:clients], fed.model)))


async def visits(fed: Federation, enough: Callable[[], bool]) -> None:
    """Ask the last client for everything that a client can be asked for."""
    client = fed.clients[-1]
    for number in itertools.count():
        if enough():
            return
        try:
            match number % 5:
                case 0:
                    await fed.train(client, fed.model)
                case 1:
                    await fed.train(client, fed.model, Work(statistics=frozenset({"squared_loss", "effective_steps"})))
                case 2:
                    with await fed.download(client, fed.model) as visit:
                        await fed.compute(visit)
                        await fed.upload(visit)
                case 3:
                    await fed.upload_examples(client, [2] * 10)
                case 4:
                    await fed.train(client, fed.model, Work(procedure="evaluate"))
        except ClientUnavailable:
            await asyncio.sleep(0)


def deployed_with_a_liar(folder: Path, change: Callable[[Call, Reply], Reply], enough: Callable[[], bool]) -> None:
    """Run three rounds of two honest clients, then visit a client whose replies are changed, as are a stranger's."""
    grid = digits_and_strangers()
    grid.clients[STRANGER]._settings = digits_clients(4)[3]._settings

    def changed(call: Call, reply: Reply) -> Reply | None:
        return change(call, reply) if call.node in (LIAR, STRANGER) and call.kind != "notice" else reply

    async def script(fed: Federation) -> None:
        grid.change = changed
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(rounds(fed, 2, 3))
            tasks.create_task(visits(fed, enough))
        fed.commit(fed.model)  # which ends the run

    grid.online = {100, 101, 102}
    push = grid.push

    def pushing(call: Call) -> str | None:
        grid.online.add(STRANGER)  # it comes while the run goes on
        return push(call)

    grid.push = pushing  # type: ignore[method-assign]
    deploy_to_folder(config(script, run__max_commits=4, deploy__patience_s=0.02), folder, grid)
    grid.close()


def check_honest(folder: Path) -> None:
    """Check that a run has the honest clients' result and a folder that can be read."""
    simulated, _, _ = run(config(lambda fed: rounds(fed, 2, 3)))  # three commits, which end it
    records = load_run(folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["model_sha256"] == simulated["model_sha256"]
    assert (records.visits["outcome"][records.visits["client"] < 2] == "done").all()


def test_mutated_replies_do_not_touch_a_run(tmp_path: Path) -> None:
    rng, sent = np.random.default_rng(5), Counter[str]()

    def change(call: Call, reply: Reply) -> Reply:
        sent[call.kind] += 1
        return mutated_reply(reply, rng)

    def fewest() -> int:
        return min(sent[kind] for kind in ("describe", "train", "receive", "examples"))

    deployed_with_a_liar(
        tmp_path / "run", change, lambda: sent.total() >= 60 and (fewest() >= 2 or sent.total() >= 20_000)
    )
    assert fewest() >= 2
    check_honest(tmp_path / "run")


ODD: dict[str, Callable[[Reply], Reply]] = {
    "loss": lambda reply: Reply({**reply.content, "statistics": {"loss": 10**400}}, reply.arrays),
    "compute_s": lambda reply: Reply({**reply.content, "compute_s": 10**400}, reply.arrays),
    "examples": lambda reply: Reply({**reply.content, "num_examples": 10**30}, reply.arrays),
    "name": lambda reply: Reply(
        {**reply.content, "statistics": {**reply.content.get("statistics", {}), "\ud800": 1.0}}, reply.arrays
    ),
    "text": lambda reply: Reply({"refused": "[/bold]\x1b[2J\nerror: forged \ud800"}),
    "no array": lambda reply: Reply(reply.content, tuple("x" for _ in reply.arrays)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_one_odd_reply_is_the_clients_own_failure(
    odd: Callable[[Reply], Reply], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = itertools.count()
    deployed_with_a_liar(tmp_path / "run", lambda call, reply: odd(reply), lambda: next(count) >= 5)
    check_honest(tmp_path / "run")
    lines = [record.getMessage() for record in caplog.records]
    assert any("client c2" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    text = "forged" in caplog.text
    records = load_run(tmp_path / "run")
    assert records.visits["outcome"][records.visits["client"] == 2][0] == ("unavailable" if text else "refused")


HONEST = {
    "protocol": PROTOCOL,
    "name": "a",
    "num_examples": 20,
    "label_histogram": [2] * 10,
    "shares_examples": False,
    "input_shape": [1, 8, 8],
    "task": "classes",
}


@given(name=st.sampled_from(sorted(HONEST)), value=st.sampled_from(VALUES) | st.text() | st.integers() | st.floats())
@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_description_is_usable_or_has_a_flaw(name: str, value: Any) -> None:
    admission = Admission(shape=(1, 8, 8), task="classes", n_classes=10)
    answer = answer_of(admission.call(1), Reply({**HONEST, name: value}))
    if answer.flaw is None:
        assert 1 <= answer.result["num_examples"] <= 10**9
        assert answer.result["label_histogram"] is None or len(answer.result["label_histogram"]) == 10
        json.dumps(answer.result).encode()
    else:
        assert answer.flaw.isprintable()
        assert len(answer.flaw) <= 500


@pytest.mark.parametrize(
    ("name", "value", "flaw"),
    [
        ("num_examples", math.inf, "num_examples = inf"),
        ("num_examples", 10**30, "less than or equal to 1000000000"),
        ("label_histogram", [10, 5], "has 15 examples; num_examples = 20"),
        ("label_histogram", [2] * 9 + [1, 1], "examples of 11 classes; the server's data have 10"),
        ("input_shape", 5, "input_shape = 5: no shape"),
        ("input_shape", [10**400], "must be the shape"),
        ("name", "a\n", "client.name"),
        ("task", "x" * 10**5, "client.task"),
    ],
)
def test_a_flaw_names_the_field_and_what_is_right(name: str, value: Any, flaw: str) -> None:
    admission = Admission(shape=(1, 8, 8), task="classes", n_classes=10)
    assert flaw in (answer_of(admission.call(1), Reply({**HONEST, name: value})).flaw or "")


def test_a_client_without_the_last_classes_may_join() -> None:
    admission = Admission(shape=(1, 8, 8), task="classes", n_classes=10)
    result = answer_of(admission.call(1), Reply({**HONEST, "label_histogram": [15, 5]})).result
    assert result["label_histogram"] == (15, 5, 0, 0, 0, 0, 0, 0, 0, 0)


@given(content=st.recursive(st.sampled_from(VALUES), lambda x: st.dictionaries(st.sampled_from([*EXACT, "loss"]), x)))
@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_training_is_usable_or_has_a_flaw(content: Any) -> None:
    call = Call(1, "train", {}, check=lambda reply: read_training(reply, 20))
    answer = answer_of(call, Reply({**EXACT, **(content if isinstance(content, dict) else {"statistics": content})}))
    assert (answer.flaw or answer.result or answer.refusal is not None) is not None
    if answer.result is not None:
        assert all(math.isfinite(value) for value in answer.result.statistics.values())
        json.dumps(answer.result.statistics).encode()


@pytest.mark.parametrize(
    ("statistics", "flaw"),
    [
        ({"loss": 1.0, "effective_steps": 4.0}, "have no squared_loss"),
        ({"loss": 1.0, "squared_loss": -1.0, "effective_steps": 4.0}, "from 0 to"),
        ({"loss": 1.0, "squared_loss": 1.0, "effective_steps": 1e9}, "with this training it is 4"),
        ({"loss": 1.0, "squared_loss": 1.0, "effective_steps": 0.0}, "with this training it is 4"),
    ],
)
def test_what_a_training_was_to_measure_must_be_there_and_possible(statistics: dict[str, float], flaw: str) -> None:
    training = Training(lr=0.1, batch_size=5, statistics=frozenset({"squared_loss", "effective_steps"}))
    with pytest.raises(BadUpdate, match=flaw):
        read_training(Reply({**EXACT, "statistics": statistics}), 20, training)
    right = {"loss": 1.0, "squared_loss": 1.0, "effective_steps": 4.0}
    assert read_training(Reply({**EXACT, "statistics": right}), 20, training).statistics == right


def npy(**header: Any) -> bytes:
    text = str({"descr": "<f4", "fortran_order": False, "shape": (3,), **header}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(12)


BYTES: dict[str, bytes] = {
    "archive": b"PK\x03\x04" + bytes(100),
    "10^15 floats": npy(shape=(10**15,)),
    "overflowing shape": npy(shape=(2**62, 2**62)),
    "negative": npy(shape=(-3,)),
    "objects": npy(descr="|O"),
    "records": npy(descr=[("a", "<f4")]),
    "too many dimensions": npy(shape=(1,) * 40 + (3,)),
    "too short": npy(shape=(4,)),
    "too long": npy(shape=(2,)),
    "nested header": b"\x93NUMPY\x01\x00\x60\x09" + b"(" * 2400,
    "nothing": b"",
    "truncated": npy()[:9],
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_array_are_rejected_before_memory_is_taken(data: bytes) -> None:
    with pytest.raises(ValueError, match="array"):
        array_of(data)


@pytest.mark.parametrize("array", [np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(5), np.zeros(0, np.uint8)])
def test_arrays_are_read_as_they_were_written(array: Any, tmp_path: Path) -> None:
    for order in "CF":
        np.save(tmp_path / "a.npy", np.asarray(array, order=order))  # type: ignore[call-overload]
        read = array_of((tmp_path / "a.npy").read_bytes())
        assert (read.dtype, read.shape) == (np.asarray(array).dtype, np.asarray(array).shape)
        np.testing.assert_array_equal(read, array)
        assert read.flags.writeable


@given(data=st.binary(max_size=300), at=st.integers(0, 100), cut=st.integers(0, 150))
@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
def test_mutated_bytes_are_an_array_or_a_flaw(data: bytes, at: int, cut: int) -> None:
    whole = npy()
    mixed = (whole[:at] + data + whole[at + len(data) :])[: cut or None]
    sections = Sections(3)
    call = Call(1, "train", {}, check=lambda reply: read_update(Reply(EXACT, (array_of(mixed),)), 20, sections, 0))
    answer = answer_of(call, Reply())
    assert (answer.flaw is None) == (answer.result is not None)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "5", "nul", '{"a":' + "9" * 5000 + "}", None, 7])
def test_json_that_is_no_object_is_a_value_error(text: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        object_of(text)


def test_the_server_waits_on_whatever_clients_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, said = np.random.default_rng(9), []
    grid = digits_and_strangers()

    def change(call: Call, reply: Reply) -> Reply:
        if call.node != LIAR or len(said) >= 40:
            return reply
        while answer_of(call, changed := mutated_reply(reply, rng)).result is not None:
            pass
        return changed

    grid.change = change
    appears = itertools.cycle([[100, 101], [100, 101, LIAR]])
    grid.node_ids = lambda: next(appears)  # type: ignore[method-assign]
    monkeypatch.setattr(joining, "_POLL_S", 0.01)

    def say(line: str) -> None:
        said.append(line)
        assert line.isprintable()

    waiting: Grid = grid
    admission = Admission(("c0", "c1", "c2"), (1, 8, 8), "classes", 10)
    joined = wait_for_clients(waiting, 3, 60.0, admission, say=say)
    assert [client.description.name for client in joined] == ["c0", "c1", "c2"]
    assert len(said) >= 40
    grid.close()


@pytest.mark.parametrize(
    ("told", "kept"),
    [([15, 5], [[2] * 10, [2] * 10, [15, 5] + [0] * 8]), ([1] * 20, [[2] * 10, [2] * 10])],
    ids=["two classes", "twenty classes"],
)
def test_the_folder_of_a_run_whose_client_tells_other_classes_can_be_read(
    told: list[int], kept: list[list[int]], tmp_path: Path
) -> None:
    def change(call: Call, reply: Reply) -> Reply:
        if call.kind != "describe":
            return reply
        return Reply({**reply.content, "label_histogram": told if call.node == LIAR else [2] * 10}, reply.arrays)

    grid = Loopback(digits_clients(3, tell_labels=True), change)
    settings = config(lambda fed: rounds(fed, len(kept), 3), data__tell_labels=True, data__clients=len(kept))
    deploy_to_folder(settings, tmp_path / "run", grid)
    grid.close()
    assert load_run(tmp_path / "run").facts["label_histograms"] == kept
    assert open_run(tmp_path / "run").summary["commits"] == 3
    assert report_runs([tmp_path / "run"], tmp_path / "report.html").stat().st_size > 10**5
