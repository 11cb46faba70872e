"""What a client keeps between its visits: local parameters, a strategy's tensors, and what its uploads left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from fedtempo.errors import RunError

_LOCAL, _RESIDUAL, _PERSONAL, _TENSOR = "local", "residual", "personal", "state."


@dataclass
class Kept:
    """What one client keeps.

    local: values of the model's local section; None: the first values. tensors: a strategy's, by name. residual: what
    its compressed uploads have left out so far (error feedback). personal: what would travel of the client's own model,
    if a strategy gives it one; evaluations of clients' own models use it.
    """

    local: Tensor | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    residual: Tensor | None = None
    personal: Tensor | None = None

    def encoded(self) -> bytes | None:
        """Return this as bytes (safetensors), which are equal for equal content; None if there is nothing to keep."""
        from safetensors.torch import save

        named = {_TENSOR + name: tensor for name, tensor in self.tensors.items()}
        if self.local is not None and self.local.numel():
            named[_LOCAL] = self.local
        if self.residual is not None:
            named[_RESIDUAL] = self.residual
        if self.personal is not None:
            named[_PERSONAL] = self.personal
        if not named:
            return None
        return bytes(save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in named.items()}))

    @classmethod
    def decoded(cls, data: bytes | None, n_local: int) -> Kept:
        """Return what was encoded. n_local: length of the model's local section. Raises RunError if it does not fit."""
        if data is None:
            return cls()
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            named = load(data)
        except (SafetensorError, ValueError) as error:
            raise RunError(f"a client's state is damaged: {error}") from error
        local, residual, personal = (named.pop(name, None) for name in (_LOCAL, _RESIDUAL, _PERSONAL))
        if (0 if local is None else local.numel()) != n_local:
            raise RunError(f"a client's state is damaged: it does not hold the model's {n_local} local values")
        return cls(local, {name.removeprefix(_TENSOR): tensor for name, tensor in named.items()}, residual, personal)
