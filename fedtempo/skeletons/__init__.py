"""`fedtempo new`: a part of one's own, begun: a file that works as it is, and its test."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

from fedtempo.errors import ConfigError, nearest

KINDS = ("strategy", "network", "data", "partition")
_ALSO = {"model": "network"}


def write(kind: str, name: str, folder: Path = Path()) -> list[Path]:
    """The file of a new part and that of its test, in `folder`; what they are called follows from `name`.

    kind: of `KINDS`. name: like "my-idea" or "MyIdea". Raises ConfigError for another kind, for what is no name of a
    module, or hides one of Python's, and where either file is there already.
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
            raise ConfigError(f"{path} is there already: nothing is overwritten")
    templates = files(__package__)
    for path, template in targets.items():
        text = templates.joinpath(template).read_text(encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(module=module, Name=class_name), encoding="utf-8")
    return list(targets)
