"""Reference pages generated from the program: commands, the configuration, parts by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import tomli_w
import typer.main

from fedtempo.api.catalogue import SECTIONS, kinds, options_of
from fedtempo.cli import app
from tools.site.pieces import fields_table

_INTROS = {
    "strategies": "Each has [a page of its own](../strategies/index.md). In a configuration: `[strategy] name = ...`.",
    "networks": "In a configuration: `[model] network = ...`; `module:Class` names your own.",
    "partitions": "In a configuration: `[data] partition = { kind = ... }`.",
    "links": "In a configuration: `[fleet] link = { kind = ... }`.",
    "distributions": "For numbers that differ between clients: `[fleet] compute`, rates of a link.",
    "availability": "In a configuration: `[fleet] availability = { kind = ... }`.",
    "estimates": "What the server knows about the length of visits: `[fleet] estimates = ...`.",
    "schedules": "In a configuration: `[training] schedule = { kind = ... }`; see [local training](../training.md).",
    "server_optimizers": "In a configuration: `[server] optimizer = { kind = ... }`; see "
    "[FedOpt](../training.md#how-do-i-use-adam-at-the-server-fedopt).",
    "fleets": "In a configuration: `[fleet] preset = ...`; each entry shows the tables that it stands for.",
    "sources": "In a configuration: `[data] source = ...`, with `[data] options = { ... }`.",
}


def commands() -> str:
    """Return the page of commands: what each does, its usage, arguments and options."""
    lines = [
        "# Commands",
        "",
        "`fedtempo COMMAND --help` prints the same in the terminal. After `fedtempo --install-completion`, the shell "
        "completes commands and options ([installing](../install.md#shell-completion)).",
    ]
    for words, command in _walk(typer.main.get_command(app.app), ("fedtempo",)):
        lines += ["", f"## `{' '.join(words)}`", "", inspect.cleandoc(command.help or ""), ""]
        arguments = [each.name for each in command.params if each.param_type_name == "argument"]
        usage = " ".join([*words, *(f"<{name}>" for name in arguments)])
        lines += ["```text", f"{usage} [options]", command.epilog.strip(), "```", ""]
        rows = []
        for each in command.params:
            option = each.param_type_name == "option"
            name = ", ".join(f"`{opt}`" for opt in each.opts) if option else f"`<{each.name}>`"
            default = "required" if each.required else _plain(each.default)
            rows.append(f"| {name} | {default} | {(each.help or '').replace(chr(92) + '[', '[')} |")
        lines += ["| argument or option | default | meaning |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def configuration() -> str:
    """Return the page of all sections of a configuration and of a client's file."""
    lines = [
        "# Configuration",
        "",
        "A configuration is one TOML file. Keys without a default are required. An unknown key is an error that names "
        "the most similar known key. `fedtempo describe NAME` prints the same tables.",
    ]
    for name, part in SECTIONS.items():
        lines += ["", f"## `{name}`", "", inspect.cleandoc(part.__doc__ or ""), "", fields_table(part)]
    return "\n".join(lines) + "\n"


def parts() -> str:
    """Return the page of all parts that a configuration can name, with their fields."""
    lines = ["# Parts by name", "", "All parts that `fedtempo list` names, with their settings."]
    for kind, known in kinds().items():
        if kind == "sections" or not known:
            continue
        lines += ["", f"## {kind.capitalize()}", "", _INTROS.get(kind, "")]
        if kind == "strategies":
            continue
        for name, part in sorted(known.items()):
            if isinstance(part, EntryPoint):  # of a package that is installed only here
                continue
            lines += ["", f"### `{name}`", "", inspect.cleandoc(part.__doc__ or ""), "", _settings(kind, part)]
    return "\n".join(lines) + "\n"


PAGES = {
    "reference/commands.md": commands,
    "reference/configuration.md": configuration,
    "reference/parts.md": parts,
}


def _settings(kind: str, part: Any) -> str:
    if kind == "fleets":
        return f"```toml\n{tomli_w.dumps({'fleet': part()}).strip()}\n```"
    if kind == "sources":
        return f"Options: {options_of(part)}."
    return fields_table(part) if dataclasses.is_dataclass(part) else ""


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands (not groups of commands), with the words that call them."""
    below = getattr(command, "commands", None)
    if below is None:
        yield words, command
    for name, inner in (below or {}).items():
        yield from _walk(inner, (*words, name))


def _plain(default: Any) -> str:
    """Return a default as a reader would type it, or an empty string if there is none."""
    if callable(default) or default in (None, False, (), []):
        return ""
    return f"`{getattr(default, 'value', default)}`"
