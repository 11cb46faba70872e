"""A client's answers: on its own data, within its owner's limits, without running code from calls."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtempo.deploy.client import answers
from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.learning.networks import Mlp, create
from fedtempo.learning.state import FlatModel
from fedtempo.learning.unet import UNet

DATA = {"source": "digits", "clients": 10, "part": 2, "examples_per_client": 30}
MODEL = FlatModel(create(Mlp(hidden=(8,)), (1, 8, 8), 10, 0), (1, 8, 8))
VECTOR = MODEL.vector.numpy().copy()


def client(**settings: Any) -> Answers:
    return Answers(parse_client({"name": "c", "insecure": True, "data": DATA, **settings}))


def call(**changes: Any) -> dict[str, Any]:
    job = {"seed": 1, "network": {"network": "mlp", "hidden": [8]}, "n_classes": 10, "layout": MODEL.layout}
    training = {"lr": 0.1, "batch_size": 10, **changes.pop("training", {})}
    return {"stay": 7, "job": {**job, **changes}, "client": 2, "visit": 1, "training": training}


def test_a_visit_trains_on_the_clients_examples() -> None:
    content, (trained,) = client().answer("train", call(), (VECTOR,))
    assert content["num_examples"] == 30
    assert content["statistics"]["loss"] > 0
    assert content["compute_s"] > 0
    assert trained.shape == VECTOR.shape
    assert np.any(trained != VECTOR)


def test_the_same_call_gives_the_same_bits_and_another_visit_different_ones() -> None:
    one = client()
    first, again, other = (
        one.answer("train", {**call(training={"batch_size": 5}), "visit": visit}, (VECTOR,))[1][0]
        for visit in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_client_augments_only_with_functions_that_it_agreed_to() -> None:
    name = "tests.learning.own_training:noise"
    asked = call(augment=name)
    refused = client().answer("train", asked, (VECTOR,))[0]["refused"]
    assert f"{name!r} is neither fedtempo's nor among `training`" in refused
    _, (augmented,) = client(training=[name]).answer("train", asked, (VECTOR,))
    _, (plain,) = client().answer("train", call(), (VECTOR,))
    assert not np.array_equal(augmented, plain)


def test_a_notice_is_logged_in_one_line_and_keeps_remembered_answers(caplog: pytest.LogCaptureFixture) -> None:
    answers = client()
    content, (trained,) = answers.answer("train", {**call(), "call": "a:1"}, (VECTOR,))
    assert answers.answer("notice", {"stay": 7, "why": "too\nshort" + 999 * "!", "call": "a:2"}, ()) == ({}, ())
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("visit 7: the server rejects the update: too\\nshort!!")
    assert len(line) < 600
    again, (same,) = answers.answer("train", {**call(), "call": "a:1"}, (VECTOR,))
    assert again == content
    assert same is trained


def test_a_repeated_call_is_answered_from_memory() -> None:
    answers = client()
    content, (trained,) = answers.answer("train", {**call(), "call": "run:1"}, (VECTOR,))
    again, (same,) = answers.answer("train", {**call(), "call": "run:1"}, ())
    assert again == content
    assert same is trained
    answers.answer("describe", {"call": "run:2"}, ())  # of which there is no need to remember anything
    assert answers.answer("train", {**call(), "call": "run:1"}, ())[0] == content
    answers.answer("receive", {"stay": 8, "call": "run:3"}, (VECTOR,))
    assert "0 arrays" in answers.answer("train", {**call(), "call": "run:1"}, ())[0]["refused"]


def test_a_completed_phase_is_answered_again_after_the_server_restarts() -> None:
    answers = client()
    answers.answer("receive", {"stay": 7, "call": "run:1"}, (VECTOR,))
    content, _ = answers.answer("compute", {**call(), "call": "run:2"}, ())
    assert answers.answer("compute", {**call(), "call": "run:2"}, ())[0] == content
    _, (sent,) = answers.answer("send", {"stay": 7, "call": "run:3"}, ())
    assert answers.answer("send", {"stay": 7, "call": "run:3"}, ())[1][0] is sent


def test_a_configured_slowdown_lengthens_visits() -> None:
    began = time.perf_counter()
    content, _ = client(pace_s=0.2).answer("train", call(), (VECTOR,))
    assert content["compute_s"] >= 0.2
    assert time.perf_counter() - began >= 0.2
    content, _ = client(pace_s=0.2).answer("train", call(training={"epochs": 3}), (VECTOR,))
    assert content["compute_s"] >= 0.6


def test_separate_phases_equal_the_whole_visit() -> None:
    answers = client()
    assert answers.answer("receive", {"stay": 7}, (VECTOR,)) == ({}, ())
    content, nothing = answers.answer("compute", call(), ())
    assert nothing == ()
    _, (sent,) = answers.answer("send", {"stay": 7}, ())
    assert content["statistics"] == client().answer("train", call(), (VECTOR,))[0]["statistics"]
    assert np.array_equal(sent, client().answer("train", call(), (VECTOR,))[1][0])
    assert "no visit 7" in answers.answer("send", {"stay": 7}, ())[0]["refused"]


def test_a_phase_out_of_order_is_refused() -> None:
    one = client()
    assert "no visit" in one.answer("compute", call(), ())[0]["refused"]
    one.answer("receive", {"stay": 7}, (VECTOR,))
    assert "no visit" in one.answer("send", {"stay": 7}, ())[0]["refused"]
    assert "no visit" in one.answer("compute", {**call(), "stay": 8}, ())[0]["refused"]


@pytest.mark.parametrize(
    ("changes", "arrays", "why"),
    [
        ({"network": {"network": "os:system"}}, (VECTOR,), "networks"),
        ({"network": {"network": "mlp", "depth": 3}}, (VECTOR,), "depth"),
        ({"network": {"network": "mlp", "hidden": [9]}}, (VECTOR,), "versions differ"),
        ({"n_classes": 5}, (VECTOR,), "5 classes"),
        ({"layout": "else"}, (VECTOR,), "versions differ"),
        ({"training": {"lr": "fast"}}, (VECTOR,), "training.lr"),
        ({"training": {"lr": -1.0}}, (VECTOR,), "training.lr"),
        ({}, (VECTOR[:-1],), "shape"),
        ({}, (VECTOR.astype(np.float64),), "float64"),
        ({}, (), "0 arrays"),
    ],
)
def test_unusable_work_is_refused(changes: dict[str, Any], arrays: Any, why: str) -> None:
    content, sent = client().answer("train", call(**changes), arrays)
    assert why in content["refused"]
    assert sent == ()


@pytest.mark.parametrize("content", [{}, {"stay": "x"}, {"job": 3, "training": {}}])
@pytest.mark.parametrize("kind", ["train", "receive", "compute", "send", "examples", "shell"])
def test_a_malformed_call_is_refused_and_the_next_one_answered(kind: str, content: dict[str, Any]) -> None:
    one = client(share_examples=True)
    assert "refused" in one.answer(kind, content, ())[0]
    assert "refused" not in one.answer("train", call(), (VECTOR,))[0]


def test_a_users_network_needs_its_owners_permission() -> None:
    job = {"network": {"network": "tests.deploy.client.nets:tiny"}}
    content, _ = client().answer("train", call(**job), (VECTOR,))
    assert "networks" in content["refused"]
    content, _ = client(networks=["tests.deploy.client.nets:tiny"]).answer("train", call(**job), (VECTOR,))
    assert "versions differ" in content["refused"]  # it was built, and is another network than the server's


def test_calls_beyond_the_owners_limits_are_refused() -> None:
    assert "limits.examples = 30" in _refusal({"examples": 30}, training={"epochs": 2})
    assert "limits.visit_s = 0.2" in _refusal({"visit_s": 0.2}, training={"epochs": 100_000})
    huge = {"network": "mlp", "hidden": [1_000_000, 1_000_000]}
    assert "limits.memory_mb = 100" in _refusal({"memory_mb": 100}, network=huge)
    content, _ = client(limits={"examples": 30, "visit_s": 60, "memory_mb": 1000}).answer("train", call(), (VECTOR,))
    assert "refused" not in content


def test_a_visit_that_was_aborted_anywhere_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alarm may come between two instructions of a `with` statement, whose end is then not carried out."""
    limited = client(limits={"visit_s": 0.2})

    def hanging(model: FlatModel, *_: Any, **__: Any) -> None:
        torch.no_grad().__enter__()
        for parameter in model.module.parameters():
            parameter.data = torch.zeros_like(parameter)  # no longer a view of the model's vector
        time.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr(answers, "train", hanging)
        assert "limits.visit_s = 0.2" in limited.answer("train", call(), (VECTOR,))[0]["refused"]
    assert torch.is_grad_enabled()
    _, (expected,) = client().answer("train", call(), (VECTOR,))
    _, (trained,) = limited.answer("train", call(), (VECTOR,))
    assert np.array_equal(trained, expected)


def _refusal(limits: dict[str, Any], **changes: Any) -> str:
    content, _ = client(limits=limits).answer("train", call(**changes), (VECTOR,))
    return str(content["refused"])


def test_a_client_reveals_only_what_its_owner_allows() -> None:
    private = client().answer("describe", {}, ())[0]
    assert private["label_histogram"] is None
    assert private["shares_examples"] is False
    assert "shares no examples" in client().answer("examples", {"after": [0] * 10, "take": [1] * 10}, ())[0]["refused"]

    open_one = client(tell_labels=True, share_examples=True)
    histogram = open_one.answer("describe", {}, ())[0]["label_histogram"]
    assert sum(histogram) == 30
    label = int(np.argmax(histogram))
    after, take = [0] * 10, [0] * 10
    after[label], take[label] = 1, 99
    _, (x, y) = open_one.answer("examples", {"after": after, "take": take}, ())
    assert set(y) == {label}
    assert len(x) == len(y) == histogram[label] - 1


def test_a_client_trains_on_masks(tmp_path: Path) -> None:
    """Its own classes of pixels may be fewer than the server's, and pixels without a label are ignored."""
    x, y = np.random.default_rng(0).random((6, 1, 4, 4)), np.zeros((6, 4, 4), dtype=np.uint8)
    y[:, 1], y[:, 2] = 1, 255
    np.savez(tmp_path / "masks.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    masks = client(data={"source": f"npz:{tmp_path / 'masks.npz'}", "options": {"ignore": 255}})
    assert masks.answer("describe", {}, ())[0]["task"] == "segmentation"
    model = FlatModel(create(UNet(channels=(4,)), (1, 4, 4), 3, 0), (1, 4, 4))
    job = {"network": {"network": "unet", "channels": [4]}, "n_classes": 3, "layout": model.layout}
    content, (trained,) = masks.answer("train", call(**job), (model.vector.numpy().copy(),))
    assert content["num_examples"] == 6
    assert 0 < content["statistics"]["loss"] < 3
    assert np.isfinite(trained).all()
    refused = masks.answer("train", call(**{**job, "n_classes": 1}), (model.vector.numpy().copy(),))[0]["refused"]
    assert refused == "its labels go up to 1, but the server has 1 classes"
