"""Parts that need Flower but no processes: messages, keys, the submitted app, and a client in a ClientApp."""

from __future__ import annotations

import json
import re
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from fedtempo.deploy.flower import wire
from fedtempo.deploy.flower.app import bundle
from fedtempo.deploy.flower.client_app import app
from fedtempo.deploy.flower.grid import FlowerGrid, Session, SuperLink
from fedtempo.deploy.flower.keys import make_keys
from fedtempo.deploy.flower.node import next_delay
from fedtempo.deploy.flower.service import _started_superlink
from fedtempo.deploy.live.messages import Call, GridError
from fedtempo.errors import ConfigError, RunError
from fedtempo.learning.networks import Mlp, create
from fedtempo.learning.state import FlatModel
from tests.deploy.live.deployments import config

pytestmark = [pytest.mark.deploy, pytest.mark.usefixtures("task_identity")]


def test_a_call_and_its_answer_survive_conversion_to_messages() -> None:
    arrays = (np.arange(3, dtype=np.float32), np.array([1], dtype=np.int64))
    call = Call(5, "train", {"a": {"b": [1, None, 2.5]}}, arrays)
    kind, content, got = wire.read_call(wire.message_of(call))
    assert (kind, content) == ("train", call.content)
    for sent, received in zip(arrays, got, strict=True):
        np.testing.assert_array_equal(sent, received)
        assert sent.dtype == received.dtype
    reply = wire.reply_of(wire.answer_to(wire.message_of(call), {"x": 1}, arrays[:1]))
    assert reply.content == {"x": 1}
    assert reply.failure is None
    assert wire.message_of(call).metadata.group_id != wire.message_of(call).metadata.group_id


@pytest.mark.parametrize(("code", "kind"), [(3, "gone"), (4, "gone"), (5, "gone"), (8, "crashed"), (2, "failed")])
def test_flowers_error_codes_become_failures(code: int, kind: str) -> None:
    message = wire.message_of(Call(5, "describe", {}))
    reply = wire.reply_of(Message(Error(code, "why"), reply_to=message))
    assert reply.failure is not None
    assert reply.failure.kind == kind


def test_a_reply_with_unexpected_content_cannot_be_read() -> None:
    message = wire.message_of(Call(5, "describe", {}))
    for text in ("[1]", "{", '"x"', "[" * 200_000):
        odd = Message(RecordDict({"told": ConfigRecord({"json": text})}), reply_to=message)
        with pytest.raises(ValueError, match=r"JSON|Expecting"):
            wire.reply_of(odd)
    with pytest.raises(KeyError):
        wire.reply_of(Message(RecordDict(), reply_to=message))


def test_the_submitted_app_holds_nothing_but_two_imports() -> None:
    assert bundle()[:2] == b"PK"
    assert len(bundle()) < 5000


def test_keys_are_created_once_and_readable_only_by_their_owner(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    names = {path.name for path in make_keys(folder, ["example.org", "10.0.0.1"], ["a", "b"])}
    assert names == {"ca.crt", "ca.key", "server.crt", "server.key", "control.secret", "a", "a.pub", "b", "b.pub"}
    for name in ("ca.key", "server.key", "control.secret", "a", "b"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    certificate = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert hosts.get_values_for_type(x509.DNSName) == ["example.org", "localhost"]
    assert [str(address) for address in hosts.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "127.0.0.1"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()))
    private = load_ssh_private_key((folder / "a").read_bytes(), None)
    assert private.public_key() == load_ssh_public_key((folder / "a.pub").read_bytes())

    before = (folder / "a").read_bytes(), (folder / "server.crt").read_bytes()
    assert {path.name for path in make_keys(folder, [], ["a", "c"])} == {"c", "c.pub"}
    assert ((folder / "a").read_bytes(), (folder / "server.crt").read_bytes()) == before
    make_keys(folder, ["example.org"], [], renew_server=True)
    assert (folder / "server.crt").read_bytes() != before[1]
    for name in ("../x", "ca.key", "control.secret"):
        with pytest.raises(ConfigError, match=f"client '{re.escape(name)}'"):
            make_keys(folder, [], [name])
    with pytest.raises(ConfigError, match="hosts: give"):
        make_keys(tmp_path / "other", [], [])


def test_the_key_of_an_authority_can_be_stored_elsewhere(tmp_path: Path) -> None:
    make_keys(tmp_path, ["example.org"], ["a"])
    authority = (tmp_path / "ca.crt").read_bytes()
    (tmp_path / "ca.key").rename(tmp_path / "elsewhere")
    assert [path.name for path in make_keys(tmp_path, [], ["b"])] == ["b", "b.pub"]
    with pytest.raises(ConfigError, match=r"ca\.key does not exist"):
        make_keys(tmp_path, ["example.org"], [], renew_server=True)
    assert (tmp_path / "ca.crt").read_bytes() == authority
    (tmp_path / "elsewhere").rename(tmp_path / "ca.key")
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(ConfigError, match=r"without its certificate"):
        make_keys(tmp_path, ["example.org"], [])


def test_without_a_superlink_for_the_configured_certificate_none_is_started_insecurely(tmp_path: Path) -> None:
    settings = config(deploy__root_certificates=str(tmp_path / "ca.crt"), deploy__superlink="127.0.0.1:9")
    with pytest.raises(RunError, match=r"no SuperLink with a certificate of .*ca\.crt"):
        _started_superlink(settings, tmp_path, None, print).__enter__()


def test_a_server_whose_app_ended_is_told_how_to_resume() -> None:
    class Refusing:
        _runtime_client, node = None, None

        def get_nodes(self) -> None:
            answer = httpx.Response(401, request=httpx.Request("POST", "http://superlink"))
            answer.raise_for_status()

    grid = FlowerGrid(Refusing(), SuperLink("127.0.0.1:9"), Session("", 1, 1, 1, ""))  # type: ignore[arg-type]
    with pytest.raises(GridError, match="fedtempo resume"):
        grid.node_ids()


class _Pushed:
    """A grid whose SuperLink does one thing after another with the calls that it gets."""

    _runtime_client, node = None, None

    def __init__(self, *does: Any) -> None:
        self.does, self.groups = list(does), []

    def push_messages(self, messages: list[Message]) -> list[str]:
        self.groups.append(messages[0].metadata.group_id)
        done = self.does.pop(0)
        if isinstance(done, Exception):
            raise done
        return [done() if callable(done) else done]


def _pushing(grid: _Pushed, monkeypatch: pytest.MonkeyPatch) -> FlowerGrid:
    monkeypatch.setattr("fedtempo.deploy.flower.grid._PUSH_AGAIN_S", 0.001)
    return FlowerGrid(grid, SuperLink("127.0.0.1:9"), Session("", 1, 1, 1, ""))  # type: ignore[arg-type]


def test_a_call_to_an_unknown_node_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SuperLink returns an empty name then, for which no reply ever comes."""
    assert _pushing(_Pushed(""), monkeypatch).push(Call(5, "describe", {})) is None


def test_a_call_is_sent_again_if_the_superlink_was_interrupted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    superlink = _Pushed(ObjectPushError("a", 1, "s"), lambda: flower_grid.interrupted(None) or "", "name")
    flower_grid = _pushing(superlink, monkeypatch)
    assert flower_grid.push(Call(5, "describe", {})) == "name"
    assert len(set(superlink.groups)) == 3  # the SuperLink refuses a message that it has

    superlink = _Pushed(*[ObjectPushError("a", 1, "s")] * 9)
    with pytest.raises(GridError, match=r"127\.0\.0\.1:9 does not store a call after 5 tries"):
        _pushing(superlink, monkeypatch).push(Call(5, "describe", {}))


def test_the_client_app_keeps_a_visits_phases_in_the_context(tmp_path: Path) -> None:
    settings = tmp_path / "client.toml"
    settings.write_text('name = "c"\ninsecure = true\n[data]\nsource = "digits"\nclients = 50\npart = 0\n')
    context = Context(1, 5, {"fedtempo": str(settings)}, RecordDict(), {})
    model = FlatModel(create(Mlp(hidden=(8,)), (1, 8, 8), 10, 0), (1, 8, 8))

    def ask(kind: Any, content: dict[str, Any], *arrays: Any) -> Any:
        message = wire.message_of(Call(5, kind, content, arrays))
        return wire.reply_of(app(message, context))

    assert ask("describe", {}).content["name"] == "c"
    assert ask("receive", {"stay": 3}, model.vector.numpy()).content == {}
    network = {"network": "mlp", "hidden": [8]}
    job = {"seed": 1, "network": network, "n_classes": 10, "layout": model.layout}
    work = {"stay": 3, "job": job, "client": 0, "visit": 1, "training": {"lr": 0.1}}
    reply = ask("compute", json.loads(json.dumps(work))).content
    assert reply["statistics"]["loss"] > 0
    (trained,) = ask("send", {"stay": 3}).arrays
    assert np.any(trained != model.vector.numpy())
    assert "no visit" in ask("send", {"stay": 3}).content["refused"]


def test_a_client_that_waits_for_long_polls_less_often() -> None:
    def polls(until_s: float) -> list[float]:
        times, delay = [0.0], 0.05
        while times[-1] < until_s:
            times.append(times[-1] + delay)
            delay = next_delay(delay, times[-1])
        return times

    times = polls(1000.0)
    assert all(later - time <= max(0.4, 0.05 * time) + 1e-9 for time, later in pairwise(times))
    assert max(later - time for time, later in pairwise(times)) == pytest.approx(2.0)
    assert len(polls(2.0)) > 10
    assert len(times) < 600
