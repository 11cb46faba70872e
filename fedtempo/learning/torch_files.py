"""What a file of `torch.save` would do to whoever loads it, found without loading it.

`torch.load(weights_only=True)` runs none of the file's code, but lets it allocate: a pickle of 40 bytes can ask for any
number of zeros, and the records of an archive can overlap.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile

from fedtempo.parts.sizes import must_hold

_GLOBALS = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(?:tensor|tensor_v2|tensor_v3|parameter|sparse_tensor)"
    r"|torch\.nn\.parameter Parameter|torch\.serialization _get_layout|torch\.storage (?:Untyped|Typed)Storage"
    r"|torch (?:Size|[A-Z]\w*Storage|b?float\d\w*|u?int\d+|bool|complex\d+)"
)
"""What the pickle of a state_dict names."""

_OTHER_WAYS = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
"""Instructions that name or make objects in other ways; torch.save writes none of them."""

_OBJECT_BYTES = 64
"""What an instruction of a byte may take in memory."""

_OLD_PICKLES = 5
"""Pickles at the beginning of a file in the format before PyTorch 1.6; the tensors follow them."""


def must_be_plain(content: bytes) -> None:
    """Raise UnpicklingError for a file that names anything but tensors, ValueError for one that takes too much."""
    stream = io.BytesIO(content)
    if not zipfile.is_zipfile(stream):
        stream.seek(0)
        must_hold("its objects take", _OBJECT_BYTES * len(content) // 16)
        for _ in range(_OLD_PICKLES):
            _check(stream)
        return
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            raise ValueError("two of its records have the same name")
        if sum(member.compress_size for member in members) > len(content):
            raise ValueError("its records overlap each other")
        must_hold("its records take", sum(member.file_size for member in members))
        for member in members:
            if member.filename.endswith(".pkl"):
                must_hold("its objects take", _OBJECT_BYTES * member.file_size)
                _check(io.BytesIO(archive.read(member)))


def _check(stream: io.BytesIO) -> None:
    """Read the instructions of a pickle, without following them, to its end."""
    for instruction, argument, _ in pickletools.genops(stream):
        name = instruction.name
        if name in _OTHER_WAYS or (name == "GLOBAL" and not _GLOBALS.fullmatch(str(argument))):
            raise pickle.UnpicklingError(f"it names {argument or name}")
