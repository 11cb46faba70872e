"""The logit-adjusted loss and its gradient; labels of impossible classes are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedtempo.errors import ConfigError
from fedtempo.learning.losses import CrossEntropy, make_loss
from fedtempo.learning.priors import label_prior
from fedtempo.learning.training import Training
from tests.golden.compare import close


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    prior = given["prior"] if "prior" in given else label_prior(given["counts"], given["pseudo_count"])
    logits = torch.tensor(given["logits"], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(given["labels"])
    training = Training(loss="logit-adjusted", tau=given["tau"], prior=tuple(prior))
    if "inf" in expected["loss"]:
        with pytest.raises(ConfigError, match=f"class {given['labels'][expected['loss'].index('inf')]} "):
            make_loss(training, labels, torch.float64)
        return
    loss = make_loss(training, labels, torch.float64)
    mean = loss(logits, labels)
    (gradient,) = torch.autograd.grad(mean, logits)
    found = {
        "prior": list(prior),
        "loss": loss(logits, labels, "none").tolist(),
        "mean": mean.item(),
        "gradient_of_mean": gradient.tolist(),
        "plain_cross_entropy": CrossEntropy()(logits, labels, "none").tolist(),
    }
    if expected.get("equals_plain_cross_entropy"):
        close(found["loss"], found["plain_cross_entropy"], rel=1e-11, abs=1e-14, where=case["name"])
    wanted = {key: value for key, value in expected.items() if key not in ("equals_plain_cross_entropy", "product")}
    close(found, wanted, rel=1e-11, abs=1e-15, where=case["name"])
