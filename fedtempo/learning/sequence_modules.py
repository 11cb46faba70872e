"""Modules for time series, from which the networks "gru" and "cnn-1d" are built."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor, nn

from fedtempo.learning.layers import dense


class GruModule(nn.Module):
    """Gated recurrent units and a linear layer on the last step, or on every step."""

    def __init__(self, features: int, hidden: int, layers: int, n_outputs: int, every_step: bool) -> None:
        super().__init__()
        self._every_step = every_step
        self.recurrent = nn.GRU(features, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, n_outputs)

    def forward(self, series: Tensor) -> Tensor:
        """Series (batch, length, features) or (batch, length) -> (batch, outputs), or (batch, length, outputs)."""
        states, _ = self.recurrent(_with_features(series))
        outputs: Tensor = self.output(states if self._every_step else states[:, -1])
        return outputs


class ChannelsFirst(nn.Module):
    """Series (batch, length, features) or (batch, length) as (batch, features, length)."""

    def forward(self, series: Tensor) -> Tensor:
        return _with_features(series).transpose(1, 2)


def convolutional_1d(
    features: int, channels: Sequence[int], kernel: int, pool_after: Collection[int], widths: Sequence[int]
) -> nn.Sequential:
    """Return convolutions over time, each with ReLU, pooled after those numbered in `pool_after`, then linear layers.

    widths: of the linear layers, from the flattened input of the first.
    """
    stack = nn.Sequential(ChannelsFirst())
    for layer, width in enumerate(channels, start=1):
        stack.extend([nn.Conv1d(features, width, kernel, padding="same"), nn.ReLU()])
        if layer in pool_after:
            stack.append(nn.MaxPool1d(2))
        features = width
    return stack.append(dense(widths))


def _with_features(series: Tensor) -> Tensor:
    return series.unsqueeze(2) if series.dim() == 2 else series
