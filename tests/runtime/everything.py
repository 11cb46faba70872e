"""Settings of local training, alone and together, whose bits must not depend on where clients train."""

from __future__ import annotations

from typing import Any

AUGMENT = "tests.learning.own_training:noise"

DROPOUT: dict[str, Any] = {
    "network": "cnn",
    "channels": [4],
    "pool_after": [1],
    "hidden": [8],
    "dropout": 0.5,
    "batch_norm": True,
}
"""A network that draws random numbers and has running statistics."""

SETTINGS: dict[str, dict[str, Any]] = {
    "dropout": {},
    "schedule": {"training.schedule": {"kind": "cosine", "over": 3, "warmup": 1}},
    "augmentation": {"data.augment": AUGMENT},
    "compression": {"server.compression": {"up": {"kind": "top-k", "share": 0.1}, "down": {"kind": "quantized"}}},
    "local": {"model.local": ["2.*"]},
    "accumulation": {"training.accumulate": 2, "training.momentum": 0.9},
}
TOGETHER: dict[str, Any] = {name: value for changes in SETTINGS.values() for name, value in changes.items()}
