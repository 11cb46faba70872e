"""New files to start from (`fedtempo new`): a configuration, or a working part of your own with its test."""

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

from fedtempo.api.catalogue import explained
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.plugins import checked, installed, outside
from fedtempo.runs.config import toml_value
from fedtempo.runs.shipped import config_names, config_path

KINDS = ("strategy", "network", "data", "partition")
_ALSO = {"model": "network"}


def new_part(kind: str, name: str, folder: Path | str = ".") -> list[Path]:
    """Write a commented part that works as it is, and its test, into a folder (`fedtempo new`); return their paths.

    kind: "strategy", "network" (or "model"), "data" or "partition". name: such as "my-idea" or "MyIdea"; it names the
    module and the class. Raises ConfigError for another kind, for a name that is not a module name or hides one of
    Python's modules, and if either file exists.
    """
    folder = Path(folder)
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


def new_config(name: str, folder: Path | str = ".") -> Path:
    """Write the configuration of `config_text` into a folder (`fedtempo new config`); return its path, `NAME.toml`.

    Raises ConfigError as `config_text`, or if the file exists.
    """
    stem, text = _config(name)
    path = Path(folder) / f"{stem}.toml"
    if path.exists():
        raise ConfigError(f"{path} already exists; choose another folder (nothing was overwritten)")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def config_text(name: str) -> str:
    """Return a commented configuration as TOML.

    name: a shipped configuration (one for every strategy, such as "fedhusky"), or a strategy of your own,
    "module:Class" or an entry point; its configuration lists every field with its meaning and default. Raises
    ConfigError for an unknown name.
    """
    return _config(name)[1]


def _config(name: str) -> tuple[str, str]:
    """Return the file name, without its suffix, and the text of a configuration."""
    if name in config_names():
        return name, config_path(name).read_text(encoding="utf-8")
    strategy = outside(name, "strategies", "new config")
    if strategy is None:
        raise ConfigError(
            f"new config {name}: no such configuration{nearest(name, [*config_names(), *installed('strategies')])}"
        )
    if not isinstance(strategy, type):
        raise ConfigError(f"new config {name}: it is a {type(strategy).__name__}, not a class")
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.rpartition(":")[2]).lower()
    return stem, _config_of(name, checked(strategy, f"new config {name}"), stem)


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
