"""Load named tensors into a module; every name or shape that does not fit is reported in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor, nn

from fedtempo.errors import ConfigError

_SHOWN = 3
"""Names of each kind in an error; the others are counted."""


def load_named(module: nn.Module, tensors: Mapping[str, Tensor], where: str, hint: str = "") -> None:
    """Copy tensors into a module's state of the same names; the module keeps its data types, devices and strides.

    where: what the tensors are, for errors; hint: what to do about them. Raises ConfigError naming the entries that are
    missing, not part of the module, or of another shape.
    """
    check_fit(module.state_dict(), tensors, where, hint)
    module.load_state_dict(dict(tensors))


def check_fit(state: Mapping[str, object], tensors: Mapping[str, Tensor], where: str, hint: str = "") -> None:
    """Raise ConfigError unless tensors have the names and shapes of a module's state; see `load_named`."""
    shapes = {name: tuple(value.shape) if isinstance(value, Tensor) else None for name, value in state.items()}
    complaints = [
        *_listed("missing", [name for name in shapes if name not in tensors]),
        *_listed("not in the network", [name for name in tensors if name not in shapes]),
        *_listed(
            "wrong shape",
            [
                f"{name} {tuple(tensor.shape)} instead of {shapes[name]}"
                for name, tensor in tensors.items()
                if name in shapes and tuple(tensor.shape) != shapes[name]
            ],
        ),
    ]
    if complaints:
        raise ConfigError(f"{where} does not fit the network: {'; '.join(complaints)}{hint}")


def _listed(what: str, names: Sequence[str]) -> Iterable[str]:
    """Yield "what: a, b, c and 4 more" unless there are no names."""
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{what}: {', '.join(names[:_SHOWN])}{more}"
