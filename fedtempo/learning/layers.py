"""Modules from which the named networks are built."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


def convolutional(
    depth: int,
    channels: Sequence[int],
    kernel: int,
    padding: str,
    pool_after: Collection[int],
    batch_norm: bool,
    running_statistics: bool,
) -> nn.Sequential:
    """Return convolutions, each with ReLU, then batch normalisation and 2x2 max pooling as configured.

    depth: channels of the input. pool_after: numbers of the layers to pool after, from 1. Without normalisation,
    pooling comes before the ReLU: the values are the same, since both are monotone, for a quarter of the work.
    """
    stack = nn.Sequential()
    for layer, width in enumerate(channels, start=1):
        stack.append(nn.Conv2d(depth, width, kernel, padding=padding))
        after: list[nn.Module] = [nn.ReLU(inplace=True)]
        if batch_norm:
            after.append(nn.BatchNorm2d(width, track_running_stats=running_statistics))
        if layer in pool_after:
            after.insert(len(after) if batch_norm else 0, nn.MaxPool2d(2))
        stack.extend(after)
        depth = width
    return stack


def dense(widths: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """Return flattening, then linear layers of these widths (input first), with ReLU and any dropout between them."""
    stack = nn.Sequential(nn.Flatten())
    for position, (inputs, outputs) in enumerate(pairwise(widths)):
        if position:
            stack.append(nn.ReLU(inplace=True))
            if dropout:
                stack.append(nn.Dropout(dropout))
        stack.append(nn.Linear(inputs, outputs))
    return stack


class OneBiasLstm(nn.LSTM):
    """An LSTM with one bias vector per layer; the second one in PyTorch's cell is a constant zero."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__(inputs, hidden, layers, batch_first=True)
        for layer in range(layers):
            name = f"bias_hh_l{layer}"
            delattr(self, name)
            self.register_buffer(name, torch.zeros(4 * hidden), persistent=False)
        self._flat_weights = [getattr(self, name) for name in self._flat_weights_names]


class CharLstm(nn.Module):
    """Embedding, LSTM layers, and a linear layer on the last step, or on every step, for the next character."""

    def __init__(
        self, vocabulary: int, embedding: int, hidden: int, layers: int, bias_vectors: int, every_step: bool
    ) -> None:
        super().__init__()
        self._every_step = every_step
        self.embedding = nn.Embedding(vocabulary, embedding)
        if bias_vectors == 1:
            self.recurrent: nn.LSTM = OneBiasLstm(embedding, hidden, layers)
        else:
            self.recurrent = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (batch, length) integers -> logits (batch, vocabulary), or (batch, length, vocabulary)."""
        states, _ = self.recurrent(self.embedding(tokens))
        logits: Tensor = self.output(states if self._every_step else states[:, -1])
        return logits
