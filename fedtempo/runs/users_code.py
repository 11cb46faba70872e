"""The identity of code outside fedtempo that results depend on: the files of the modules that were loaded.

What decides a result is the code in memory. Its file stands for it only if it has not changed since the module was
loaded, and nobody records when that was. So a file that is younger than this process gets an identity that no other
process has: results that depend on it are reused within the process only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from types import ModuleType
from typing import Any

from fedtempo.errors import ConfigError

_NAME = re.compile(r"([\w.]+):[\w.]+")
_SESSION = secrets.token_bytes(16)
_identities: dict[str, tuple[Any, bytes]] = {}
"""By module: its spec, which is another one after a reload, and the identity of its file."""


def modules_in(value: Any) -> Iterator[str]:
    """Yield the loaded modules in the texts "module:name" of nested tables and lists."""
    if isinstance(value, str) and (match := _NAME.fullmatch(value)) and match[1] in sys.modules:
        yield match[1]
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from modules_in(item)


def users_code(named: Iterable[str]) -> bytes:
    """Return the identity of all loaded modules outside Python, fedtempo and installed packages, and of these packages.

    named: modules that a configuration names; of an installed one, the whole package counts. Raises ConfigError if one
    of them has no file.
    """
    tops = set()
    for name in sorted(set(named)):
        if getattr(sys.modules.get(name), "__file__", None) is None:
            raise ConfigError(
                f"executor.reuse = true: {name!r} has no file (a notebook?), so a change of its code would go "
                "unnoticed; move it to a .py file, or set executor.reuse = false"
            )
        tops.add(name.partition(".")[0])
    digest = hashlib.sha256()
    for name, module in sorted(sys.modules.items()):
        top = name.partition(".")[0]
        if top in tops or (name != "__main__" and top != "fedtempo" and _is_users(module)):
            digest.update(name.encode() + b"\n" + _identity(name, module))
    return digest.digest()


def unchanged(files: Iterable[Path]) -> bytes:
    """Return nothing if all files are older than this process, else bytes that no other process has."""
    return _SESSION if any(map(_is_young, files)) else b""


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and os.path.isabs(file) and not file.startswith(_installed_under())


@cache
def _installed_under() -> tuple[str, ...]:
    """Return the folders of Python and of installed packages."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    with contextlib.suppress(ImportError):
        import site

        paths |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(f"{path}{os.sep}" for path in paths if path)


def _identity(name: str, module: ModuleType) -> bytes:
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    before = _identities.get(name)
    if before is not None and before[0] is spec:
        return before[1]
    path = Path(file or "")
    try:
        identity = hashlib.sha256(path.read_bytes() + unchanged([path])).digest()
    except OSError:
        identity = _SESSION
    _identities[name] = spec, identity
    return identity


def _is_young(path: Path) -> bool:
    """Return whether a file has changed since this process, or the one that it was forked from, began."""
    started = _started()
    try:
        return started is None or path.stat().st_ctime >= started
    except OSError:
        return True


@cache
def _started() -> float | None:
    """Return when this process began, or its parent if that is fedtempo as well; None if the system does not say."""
    processes = [os.getpid()] if parent_process() is None else [os.getpid(), os.getppid()]
    try:
        fields = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes]
        ticks = min(int(of_process[19]) for of_process in fields)
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError, IndexError):
        return None
