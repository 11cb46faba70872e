"""The networks "gru" and "cnn-1d", for time series: examples are vectors of numbers in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.parts.fields import STRICT, Count, Doc

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, config=STRICT)
class Gru:
    """Gated recurrent units (Cho et al., EMNLP 2014) for time series, and a linear layer on the last step.

    12,929 parameters for one feature and one output.
    """

    hidden: Annotated[Count, Doc("units of each layer")] = 64
    n_layers: Annotated[Count, Doc("layers of units")] = 1
    every_step: Annotated[
        bool, Doc("predict at each step, for data with a label for each; false: at the last step only")
    ] = False

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, length, features) or (batch, length), output (batch, n_classes).

        With every_step the output is (batch, length, n_classes).
        """
        from fedtempo.learning.sequence_modules import GruModule

        _, features = _series("gru", input_shape)
        return GruModule(features, self.hidden, self.n_layers, n_classes, self.every_step)


@dataclass(frozen=True, config=STRICT)
class Cnn1d:
    """One-dimensional convolutions over time with ReLU, max pooling after some, then fully connected layers.

    Series keep their length in a convolution (zero padding) and lose half of it in a pooling.
    """

    channels: Annotated[tuple[Count, ...], Field(strict=False, min_length=1), Doc("filters of each convolution")] = (
        32,
        64,
    )
    kernel: Annotated[Count, Doc("steps that a filter covers")] = 5
    pool_after: Annotated[
        tuple[Count, ...],
        Field(strict=False),
        Doc("numbers, from 1, of the convolutions followed by max pooling over two steps"),
    ] = (1, 2)
    hidden: Annotated[tuple[Count, ...], Field(strict=False), Doc("widths of the hidden fully connected layers")] = (
        64,
    )

    def __post_init__(self) -> None:
        beyond = [layer for layer in self.pool_after if layer > len(self.channels)]
        if beyond:
            raise ValueError(f"pool_after: no convolution {beyond[0]}; channels defines {len(self.channels)}")

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input (batch, length, features) or (batch, length), output (batch, n_classes)."""
        from fedtempo.learning.sequence_modules import convolutional_1d

        length, features = _series("cnn-1d", input_shape)
        after = length // 2 ** len(set(self.pool_after))
        if after < 1:
            raise ConfigError(
                f"pool_after: series of {length} steps are too short for {len(set(self.pool_after))} poolings, which "
                f"need {2 ** len(set(self.pool_after))}; set pool_after to fewer layers"
            )
        return convolutional_1d(
            features, self.channels, self.kernel, self.pool_after, (self.channels[-1] * after, *self.hidden, n_classes)
        )


def _series(network: Literal["gru", "cnn-1d"], input_shape: Sequence[int]) -> tuple[int, int]:
    """Return length and features of one example. Raises ConfigError for examples that are no series."""
    if len(input_shape) not in (1, 2):
        raise ConfigError(
            f"model.network = {network!r}: needs series (length, features) or (length,), got examples of shape "
            f"{input_shape}"
        )
    return input_shape[0], input_shape[1] if len(input_shape) == 2 else 1
