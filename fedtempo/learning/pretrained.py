"""Initial parameters and buffers from a file: the keys `initial` and `initial_only` of the section `[model]`.

NumPy and PyTorch are imported only when a file is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.learning.exchange import Patterns
from fedtempo.learning.torch_files import must_be_plain
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.parts.sizes import must_fit, tensors_must_hold
from fedtempo.parts.text_files import read_plain

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor, nn

    Array = npt.NDArray[Any]


_SAFETENSORS, _PYTORCH = ".safetensors", (".pt", ".pth", ".bin")
_COUNTER = "num_batches_tracked"


@dataclass(frozen=True, config=STRICT)
class InitialWeights:
    """Where the initial model comes from; the other keys of `[model]` name the network and its settings."""

    initial: Annotated[
        str | None,
        Doc(
            "file with the initial parameters and buffers by name: .safetensors, or .pt with a plain state_dict "
            "(default: random, from run.seed)"
        ),
    ] = None
    initial_only: Annotated[
        Patterns,
        Doc(
            "patterns of the names that are taken from the file, such as 'features.*'; all others stay random "
            "(default: the file must hold all names)"
        ),
    ] = ()

    def __post_init__(self) -> None:
        if self.initial_only and self.initial is None:
            raise ValueError("initial_only needs initial, the file to take the parameters from")
        if self.initial is not None and not self.initial.endswith((_SAFETENSORS, *_PYTORCH)):
            raise ValueError(f"initial = {self.initial!r}: must be a .safetensors or .pt file")

    @property
    def given(self) -> dict[str, Any]:
        """The keys that are set, as TOML values."""
        values = {"initial": self.initial, "initial_only": [*self.initial_only]}
        return {name: value for name, value in values.items() if value}

    def sha256(self) -> str | None:
        """Return the hash of the file's content; None without a file. Raises ConfigError if it cannot be read."""
        return None if self.initial is None else hashlib.sha256(_content(self.initial)).hexdigest()

    def read(self) -> InitialState | None:
        """Read the file; return None without a file. Raises ConfigError, in one line, if it cannot be read."""
        return None if self.initial is None else InitialState(read_tensors(self.initial), self.initial_only)


@dataclasses.dataclass(frozen=True, eq=False)
class InitialState:
    """Arrays by name for a network's initial state. only: see `InitialWeights.initial_only`."""

    arrays: Mapping[str, Array]
    only: tuple[str, ...] = ()

    def load_into(self, module: nn.Module) -> None:
        """Copy the arrays into a module.

        Counters of batch normalisation are left out: fedtempo restarts them at each visit. Raises ConfigError naming
        what is missing, not part of the module, of another shape or type, or has an impossible value.
        """
        import torch

        from fedtempo.learning.loading import check_fit

        state = module.state_dict(keep_vars=True)
        for pattern in self.only:
            if not any(fnmatchcase(name, pattern) for name in state):
                names = ", ".join([*state][:_SHOWN_NAMES])
                raise ConfigError(f"model.initial_only: {pattern!r} matches no name in the network ({names}, ...)")
        wanted = {name: value for name, value in state.items() if self._takes(name)}
        given = {name: torch.from_numpy(array) for name, array in self.arrays.items() if self._takes(name)}
        for twins in _tied(wanted):
            known = next((given[name] for name in twins if name in given), None)
            given |= {} if known is None else {name: given.get(name, known) for name in twins}
        hint = "" if self.only else "; model.initial_only = [...] takes only a part of it"
        check_fit(wanted, given, "model.initial: the file", hint)
        _check_values(wanted, given)
        module.load_state_dict(given, strict=False)

    def integers_changed_in(self, module: nn.Module) -> list[str]:
        """Return the names of a module's integer buffers that would get other values."""
        return [
            name
            for name, value in module.state_dict().items()
            if self._takes(name)
            and not value.is_floating_point()
            and name in self.arrays
            and self.arrays[name].tolist() != value.tolist()
        ]

    def _takes(self, name: str) -> bool:
        wanted = not self.only or any(fnmatchcase(name, pattern) for pattern in self.only)
        return wanted and name.rpartition(".")[2] != _COUNTER


_SHOWN_NAMES = 5


def read_tensors(path: str) -> dict[str, Array]:
    """Read a .safetensors or .pt file of tensors by name; nothing in it is executed.

    Floating-point numbers are returned in single precision. Raises ConfigError, in one line, for any other content.
    """
    import torch

    content = _content(path)
    try:
        if path.endswith(_SAFETENSORS):
            from safetensors.torch import load

            tensors_must_hold(Path(path))
            loaded: Any = load(content)
        else:
            must_be_plain(content)
            loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # its text advises to execute the file
        raise ConfigError(
            f"model.initial = {path!r}: not a plain state_dict saved by torch.save: it is damaged, or holds more than "
            "tensors, such as a whole module; save module.state_dict()"
        ) from error
    except Exception as error:  # whatever malformed content raises
        what = "a safetensors file" if path.endswith(_SAFETENSORS) else "a plain state_dict saved by torch.save"
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise ConfigError(f"model.initial = {path!r}: not {what}: {reason}") from error
    if not isinstance(loaded, Mapping) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in loaded.items()
    ):
        keys = f"the keys {', '.join(map(repr, [*loaded][:4]))}" if isinstance(loaded, Mapping) else None
        raise ConfigError(
            f"model.initial = {path!r}: must hold only tensors by name, such as module.state_dict(); it holds "
            f"{keys or type(loaded).__name__}"
        )
    if not loaded:
        raise ConfigError(f"model.initial = {path!r}: holds no tensors")
    size = sum(4 * tensor.numel() for tensor in loaded.values())  # a tensor may show the same value again and again
    must_fit(f"model.initial = {path!r}", size)
    return {name: _as_array(tensor) for name, tensor in loaded.items()}


def _content(path: str) -> bytes:
    try:
        return read_plain(Path(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"model.initial = {path!r}: cannot be read: {reason}") from error


def _as_array(tensor: Tensor) -> Array:
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    array: Array = (dense.float() if dense.is_floating_point() else dense).contiguous().numpy()
    return array


def _tied(state: Mapping[str, Any]) -> list[list[str]]:
    """Return the names of tensors that have several; files often hold tied parameters under one name."""
    names: dict[int, list[str]] = {}
    for name, value in state.items():
        names.setdefault(id(value), []).append(name)
    return [twins for twins in names.values() if len(twins) > 1]


def _check_values(wanted: Mapping[str, Any], given: Mapping[str, Tensor]) -> None:
    """Raise ConfigError for another kind of numbers, for values that are not finite, and for negative variances."""
    for name, tensor in given.items():
        if tensor.is_floating_point() != wanted[name].is_floating_point():
            raise ConfigError(f"model.initial: {name} holds {tensor.dtype}, the network {wanted[name].dtype}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ConfigError(f"model.initial: {name} holds values that are not finite")
        if name.rpartition(".")[2] == "running_var" and bool((tensor < 0).any()):
            raise ConfigError(f"model.initial: {name} holds a negative variance")


def located_initial(table: Any, folder: Path) -> None:
    """Make the file of a table `[model]` absolute if it exists relative to `folder`."""
    if isinstance(table, dict) and isinstance(name := table.get("initial"), str) and (folder / name).is_file():
        table["initial"] = str((folder / name).resolve())
