"""A user's network, for tests."""

from __future__ import annotations

from torch import nn


def tiny() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
