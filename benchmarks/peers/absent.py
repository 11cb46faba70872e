"""Packages that a peer imports and its training does not use, so that they need not be installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Stub(ModuleType):
    """A module of which every name is an empty class of that name."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class _Stubs(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        mine = any(fullname == name or fullname.startswith(f"{name}.") for name in self._names)
        return ModuleSpec(fullname, self, is_package=True) if mine else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def pretend(*names: str) -> None:
    """Let these packages be imported, with empty classes for whatever is asked of them."""
    sys.meta_path.insert(0, _Stubs(names))
