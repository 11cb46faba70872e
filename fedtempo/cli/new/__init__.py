"""`fedtempo new`: a configuration, or a working part of your own with its test."""

from __future__ import annotations

import dataclasses
import keyword
import re
import sys
import typing
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import tomli_w

from fedtempo.cli.catalogue import explained
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.plugins import checked, installed, outside
from fedtempo.runs.config import toml_value
from fedtempo.runs.shipped import config_names, config_path

KINDS = ("strategy", "network", "data", "partition")
_ALSO = {"model": "network"}


def write(kind: str, name: str, folder: Path = Path()) -> list[Path]:
    """Write a new part and its test into `folder`, named after `name`; return their paths.

    kind: one of `KINDS`. name: such as "my-idea" or "MyIdea". Raises ConfigError for another kind, for a name that is
    not a module name or hides one of Python's modules, and if either file exists.
    """
    kind = _ALSO.get(kind, kind)
    if kind not in KINDS:
        raise ConfigError(f"new {kind}: no such kind{nearest(kind, KINDS)}")
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])", name)
    module, class_name = "_".join(words).lower(), "".join(word[0].upper() + word[1:] for word in words)
    if not re.fullmatch(r"[A-Za-z][\w-]*", name) or keyword.iskeyword(module):
        raise ConfigError(f"new {kind} {name}: give it a name of letters, digits and -, like my-idea")
    if module in sys.stdlib_module_names or module == "fedtempo":
        raise ConfigError(f"new {kind} {name}: {module}.py would hide a module of that name; choose another")
    targets = {folder / f"{module}.py": f"{kind}.py.txt", folder / f"test_{module}.py": f"test_{kind}.py.txt"}
    for path in targets:
        if path.exists():
            raise ConfigError(f"{path} already exists; choose another name or folder (nothing was overwritten)")
    templates = files(__package__)
    for path, template in targets.items():
        text = templates.joinpath(template).read_text(encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(module=module, Name=class_name), encoding="utf-8")
    return list(targets)


def write_config(name: str, folder: Path = Path()) -> Path:
    """Write a commented configuration into `folder`; return its path, `NAME.toml`.

    name: a shipped configuration (`shipped.config_names()`, one for every strategy), or a strategy of your own,
    `module:Class` or an entry point; its configuration lists every field with its meaning and default. Raises
    ConfigError for an unknown name, or if the file exists.
    """
    if name in config_names():
        path, text = folder / f"{name}.toml", config_path(name).read_text(encoding="utf-8")
    else:
        strategy = outside(name, "strategies", "new config")
        if strategy is None:
            raise ConfigError(
                f"new config {name}: no such configuration{nearest(name, [*config_names(), *installed('strategies')])}"
            )
        if not isinstance(strategy, type):
            raise ConfigError(f"new config {name}: it is a {type(strategy).__name__}, not a class")
        stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.rpartition(":")[2]).lower()
        path, text = folder / f"{stem}.toml", _config_of(name, checked(strategy, f"new config {name}"), stem)
    if path.exists():
        raise ConfigError(f"{path} already exists; choose another folder (nothing was overwritten)")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _config_of(name: str, strategy: type, stem: str) -> str:
    """The configuration of a strategy that is not ours: FedAvg's, with the strategy's own fields."""
    base = config_path("fedavg").read_text(encoding="utf-8")
    setting = base[base.index("[run]") : base.index("[strategy]")]
    executor = base[base.index("[executor]") : base.index("[compare.")]
    header = (
        f"# {name} in FedAvg's setting. `fedtempo run {stem}.toml` runs it;\n"
        f"# `fedtempo compare {stem}.toml --strategies {name},fedavg --seeds 1-3` compares it.\n\n"
    )
    hints = typing.get_type_hints(strategy, include_extras=True)
    lines = [_field_line(field, explained(hints[field.name])[2]) for field in dataclasses.fields(strategy)]
    table = "\n".join(["[strategy]", f'name = "{name}"', *lines])
    return f"{header}{setting}{table}\n\n{executor.rstrip()}\n"


def _field_line(field: dataclasses.Field[Any], meaning: str) -> str:
    """A field as a line of TOML; as a comment if it has no default, or none that fits on a line."""
    comment = f"  # {meaning}" if meaning else ""
    default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    if default is dataclasses.MISSING:
        return f"# {field.name} = ...{comment or '  #'} (required)"
    value = toml_value(default)
    if value is None or isinstance(value, dict | list):
        return f"# {field.name} = ...{comment}"
    return tomli_w.dumps({field.name: value}).strip() + comment
