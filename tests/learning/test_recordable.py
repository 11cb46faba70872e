"""Operations that cannot be recorded are detected and named, in forward and backward passes."""

import pytest
import torch
from torch import nn

from fedtempo.learning.recordable import obstacle

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)


class ReadsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float(gradient.sum())


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: X.sum().item(), "_local_scalar_dense: the next step depends on a value"),
        (lambda: X if X.sum() > 0 else -X, "_local_scalar_dense"),
        (lambda: X[X > 0], "index: the next step depends"),
        (lambda: X.detach().clone().index_put_((X > 0,), torch.ones(())), "index_put_: the next step"),
        (lambda: X.detach().nonzero(), "nonzero: the next step"),
        (lambda: nn.functional.dropout(X, 0.5), "draws random numbers"),
        (lambda: torch.rand_like(X), "rand_like draws random numbers"),
        (lambda: X.detach().clone().bernoulli_(), "bernoulli_ draws random numbers"),
        (lambda: X.detach().to("meta"), "a tensor is copied between cpu and meta"),
        (lambda: torch.autograd.grad(ReadsInBackward.apply(X).sum(), X), "_local_scalar_dense"),
    ],
)
def test_operations_that_cannot_be_recorded_are_named(function, reason):
    assert reason in obstacle(function)


def test_indexing_and_masking_with_fixed_shapes_can_be_recorded():
    rows = torch.tensor([0, 2])
    assert obstacle(lambda: torch.autograd.grad(X[rows].masked_fill(X[rows] > 0, 0.0).sum(), X)) is None


def test_dropout_with_probability_zero_can_be_recorded():
    attention = nn.MultiheadAttention(6, 2, dropout=0.0)
    recurrent = nn.LSTM(6, 3, num_layers=2)

    def step():
        out = attention(X[None], X[None], X[None])[0].sum() + recurrent(X[None])[0].sum()
        return torch.autograd.grad(out + nn.functional.dropout(X, 0.0).sum(), X)

    assert obstacle(step) is None
    recurrent.dropout = 0.5
    assert "random numbers" in obstacle(step)
