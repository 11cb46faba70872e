"""Import later: parts by name, and a package's exports, are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Classes (or other objects) by the name that a configuration uses, imported when they are first asked for.

    targets: "module:Class" by name. The order is that of `targets`; names, length and `in` import nothing.
    """

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = dict(targets)

    def __getitem__(self, name: str) -> T:
        module, _, class_name = self._targets[name].partition(":")
        registered: T = getattr(importlib.import_module(module), class_name)
        return registered

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def name_of(self, cls: type) -> str | None:
        """Return the name of a class, None if it is not registered. Imports nothing."""
        target = f"{cls.__module__}:{cls.__qualname__}"
        return next((name for name, known in self._targets.items() if known == target), None)

    @property
    def exports(self) -> dict[str, str]:
        """The module of each class, by the class's own name, for `exported`."""
        return {
            class_name: module for module, _, class_name in (text.partition(":") for text in self._targets.values())
        }


def exported(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` (PEP 562), which imports a name from its module when it is first asked for.

    modules: the module of each name.
    """

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattribute
