"""Networks and data that a user might write: several inputs, and outputs as objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LENGTH, SYMBOLS = 6, 11


class Masked(nn.Module):
    """A text classifier that takes keywords and returns an object with logits, as those of transformers do."""

    def __init__(self, input_shape: dict[str, tuple[int, ...]], n_classes: int) -> None:
        super().__init__()
        assert input_shape == {"input_ids": (LENGTH,), "attention_mask": (LENGTH,)}
        self.embedding = nn.Embedding(SYMBOLS, 5)
        self.head = nn.Linear(5, n_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: None = None) -> Any:
        assert input_ids.dtype == attention_mask.dtype == torch.int64
        mask = attention_mask.unsqueeze(-1).to(self.head.weight.dtype)
        mean = (self.embedding(input_ids) * mask).sum(1) / mask.sum(1)
        return SimpleNamespace(loss=None, logits=self.head(mean))


class Pair(nn.Module):
    """A network of two positional inputs, which returns a mapping with logits."""

    def __init__(self, input_shape: tuple[tuple[int, ...], ...], n_classes: int) -> None:
        super().__init__()
        assert input_shape == ((3,), (2, 2))
        self.left, self.right = nn.Linear(3, n_classes), nn.Linear(4, n_classes)

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Tensor]:
        return {"logits": self.left(left) + self.right(right.flatten(1))}


class Listing(nn.Linear):
    def forward(self, x: Tensor) -> Any:
        return [super().forward(x)]


def texts(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, SYMBOLS, (n, LENGTH))
    lengths = rng.integers(1, LENGTH + 1, (n, 1))
    mask = np.arange(LENGTH) < lengths
    return {"input_ids": ids, "attention_mask": mask}, (ids[:, 0] % 3).astype(np.int64)


def text_data() -> Any:
    """Return four arrays, the inputs as dicts."""
    return *texts(60, 0), *texts(20, 1)


def text_items() -> Any:
    """Return two data sets whose items are dicts of inputs and labels."""
    both = []
    for inputs, labels in (texts(60, 0), texts(20, 1)):
        names = list(inputs)
        both.append([{**{name: inputs[name][i] for name in names}, "labels": labels[i]} for i in range(len(labels))])
    return tuple(both)


def pairs() -> Any:
    rng = np.random.default_rng(2)

    def part(n: int) -> Any:
        left, right = rng.standard_normal((n, 3)), rng.standard_normal((n, 2, 2))
        return (left, right), (left[:, 0] > 0).astype(np.int64)

    return *part(40), *part(15)


def masked(inputs: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Drop the first symbol of half of the texts."""
    mask = inputs["attention_mask"].clone()
    chosen = (torch.rand(len(mask), generator=generator) < 0.5) & (mask.sum(1) > 1)
    mask[chosen, 0] = 0
    return {**inputs, "attention_mask": mask}


def by_length(outputs: Tensor, labels: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Weight each text's loss by its length."""
    losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
    return losses * inputs["attention_mask"].sum(1)


def margin(outputs: Tensor, labels: Tensor, inputs: Tensor) -> Tensor:
    """Weight each example's loss by its largest input."""
    return nn.functional.cross_entropy(outputs, labels, reduction="none") * inputs.flatten(1).amax(1)


def last_symbols(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values[:, -3:] for name, values in inputs.items()}


def split_bytes(inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Make two inputs of one array."""
    flat = inputs.reshape(len(inputs), -1)
    return {"left": flat[:, :8], "right": flat[:, 8:]}
