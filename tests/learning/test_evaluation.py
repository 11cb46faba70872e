import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedtempo.learning.evaluation import BATCH, combine, evaluate, parts
from fedtempo.learning.examples import Examples
from fedtempo.learning.state import FlatModel


def test_parts_cover_the_test_set_exactly_once():
    assert parts(0) == []
    assert parts(2 * BATCH + 1) == [(0, BATCH), (BATCH, 2 * BATCH), (2 * BATCH, 2 * BATCH + 1)]
    assert parts(7, 3) == [(0, 3), (3, 6), (6, 7)]
    assert parts(0, 3) == []


def test_accuracy_and_loss_over_several_parts():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((BATCH + 7, 4)), rng.integers(0, 3, BATCH + 7)
    model = FlatModel(nn.Sequential(nn.Dropout(0.9), nn.Linear(4, 3)), (4,), torch.float64)
    accuracy, loss = evaluate(model, Examples(x, y, False, torch.float64))
    logits = model.module[1](torch.from_numpy(x)).detach()
    assert accuracy == pytest.approx(float((logits.argmax(1).numpy() == y).mean()), abs=1e-15)
    assert loss == pytest.approx(float(F.cross_entropy(logits, torch.from_numpy(y))), rel=1e-12)


def test_no_test_examples_give_nan():
    assert all(math.isnan(value) for value in combine([], 0))


def test_examples_keep_their_memory_layout():
    images = np.zeros((6, 4, 4, 3), dtype=np.float32)
    examples = Examples(np.moveaxis(images, -1, 1), np.zeros(6, dtype=np.int64), channels_last=True)
    images[2, 1, 1, 2] = 5.0
    x, _ = examples.gather(torch.tensor([2, 0]))
    assert x.shape == (2, 3, 4, 4)
    assert x[0, 2, 1, 1] == 5.0
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert examples.span(2, 3)[0][0, 2, 1, 1] == 5.0


def test_tokens_may_be_stored_in_narrow_types():
    x, _ = Examples(np.ones((3, 2), dtype=np.uint8), np.zeros(3, dtype=np.uint8), False).span(0, 3)
    assert x.dtype == torch.int64
