"""Strategies receive values: created by position or name, comparable, copied with changes, immutable."""

from __future__ import annotations

import dataclasses

import pytest

from fedtempo.federation import Client, Model, Update


def test_an_update_is_a_value() -> None:
    client, received, model = Client(3, 100), Model(4, "there"), Model(4, "here")
    update = Update(client, received, model, 100, {"loss": 0.5}, 1.0, 2.0, 3.0)
    named = {field.name: getattr(update, field.name) for field in dataclasses.fields(Update)}
    assert list(named.values()) == [client, received, model, 100, {"loss": 0.5}, 1.0, 2.0, 3.0, ()]
    assert Update(**named) == update != dataclasses.replace(update, finished=4.0)
    assert dataclasses.replace(update, finished=4.0).finished == 4.0
    assert update.base_version == 4
    assert "num_examples=100" in repr(update)
    with pytest.raises(dataclasses.FrozenInstanceError):
        update.finished = 4.0  # type: ignore[misc]
