from __future__ import annotations

import sys

import pytest

from fedtempo.parts.later import Registry, exported
from fedtempo.strategies import STRATEGIES

NAMES = {"decimal": "decimal:Decimal", "fraction": "fractions:Fraction"}


def test_a_registry_imports_a_class_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fractions", raising=False)
    registry = Registry(NAMES)
    assert list(registry) == ["decimal", "fraction"]
    assert len(registry) == 2
    assert "fraction" in registry
    assert "Fraction" not in registry
    assert "fractions" not in sys.modules
    assert registry["fraction"].__name__ == "Fraction"
    assert registry.name_of(registry["fraction"]) == "fraction"
    assert registry.name_of(int) is None


def test_an_unknown_name_of_a_registry_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        Registry(NAMES)["nobody"]


def test_every_registered_strategy_can_be_imported_from_the_package() -> None:
    import fedtempo.strategies

    for name, cls in STRATEGIES.items():
        assert getattr(fedtempo.strategies, cls.__name__) is cls
        assert STRATEGIES.name_of(cls) == name


def test_a_package_has_no_other_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'planets' has no attribute 'Pluto'"):
        exported("planets", {"Mars": "decimal"})("Pluto")
