"""Convolutions computed in tiles equal direct ones."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedtempo.learning import tiles
from fedtempo.learning.tiles import Tiles


def images(batch, channels, height, width, dtype=torch.float64, seed=0):
    rng = torch.Generator().manual_seed(seed)
    drawn = torch.randn(batch, channels, height, width, generator=rng, dtype=dtype)
    return drawn.to(memory_format=torch.channels_last)


def convolution(inputs, outputs, padding=0, dtype=torch.float64, bias=True):
    torch.manual_seed(1)
    module = nn.Conv2d(inputs, outputs, 5, padding=padding, bias=bias).to(dtype)
    return module, Tiles(module.weight.detach(), module.bias.detach() if bias else None, module.padding)


def both_ways(module, tiled, x, seed=2):
    """Return (output, input gradient, weight gradient), computed directly and in tiles."""
    y = module(x.requires_grad_())
    upper = images(*y.shape, dtype=x.dtype, seed=seed)
    wanted = (y.detach(), *torch.autograd.grad(y, (x, module.weight), upper))
    with torch.no_grad():
        output = tiled.forward(x.detach())
        below, weight = tiled.backward(upper, True)
    return wanted, (output, below, weight.clone())


@settings(max_examples=40)
@given(
    batch=st.integers(1, 70),
    channels=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    tall=st.integers(1, 3),
    wide=st.integers(1, 3),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_output_and_gradients_equal_those_of_direct_convolution(batch, channels, tall, wide, padding):
    height, width = 4 * tall + 4 - 2 * padding[0], 4 * wide + 4 - 2 * padding[1]
    module, tiled = convolution(*channels, padding)
    x = images(batch, channels[0], height, width)
    assert tiled.fit(x)
    for direct_result, tiled_result in zip(*both_ways(module, tiled, x), strict=True):
        torch.testing.assert_close(tiled_result, direct_result, rtol=1e-10, atol=1e-10)


def test_batches_of_other_sizes_in_between_change_nothing():
    module, tiled = convolution(3, 4)
    for batch in (5, 2, 40, 5, 1):
        for direct_result, tiled_result in zip(
            *both_ways(module, tiled, images(batch, 3, 12, 8, seed=batch)), strict=True
        ):
            torch.testing.assert_close(tiled_result, direct_result, rtol=1e-10, atol=1e-10)


def test_single_precision_errors_stay_within_their_expected_rounding(monkeypatch):
    """Each result is within six standard deviations of the error of independent roundings.

    Some n = 192 roundings lie on the way to a result: 64 at the tile's points, 64 at most of channels, 64 back. Each is
    uniform, of variance u^2/3 of the partial sum that it rounds, and partial sums grow to r, the root of the sum of
    squared products, so that half of r^2 is their mean: a variance of n u^2 r^2 / 6. r comes from the same way with
    everything squared. (Higham and Mary 2019 on why roundings may be taken as independent.)
    """
    single, tiled = convolution(32, 64, dtype=torch.float32)
    x, upper = images(10, 32, 12, 12, torch.float32).relu(), images(10, 64, 8, 8, torch.float32, seed=3)
    single_results = tiled.forward(x), *tiled.backward(upper, True)
    exact = single.double()
    y = exact(x.double().requires_grad_())
    below = x.double().requires_grad_()
    exact_results = y, *torch.autograd.grad(exact(below), (below, exact.weight), upper.double())
    squares = tuple(matrix.square() for matrix in tiles._evaluations(torch.float64))
    monkeypatch.setattr(tiles, "_evaluations", lambda dtype: squares)
    spread = Tiles(exact.weight.detach().square(), exact.bias.detach().square(), exact.padding)
    r_squared = spread.forward(x.double().square()), *spread.backward(upper.double().square(), True)
    deviation = 2**-24 * (192 / 6) ** 0.5
    for single_precision, double_precision, squared in zip(single_results, exact_results, r_squared, strict=True):
        error = (single_precision - double_precision).abs()
        assert (error <= 6 * deviation * squared.sqrt()).all()
        assert error.max() < 3e-5 * double_precision.abs().max()  # roughly what the module's documentation promises


def test_the_same_batch_gives_the_same_bits_whatever_came_before():
    _, tiled = convolution(32, 32, dtype=torch.float32)
    x, upper = images(10, 32, 12, 12, torch.float32), images(10, 32, 8, 8, torch.float32)
    first = tiled.forward(x), *(part.clone() for part in tiled.backward(upper, True))
    tiled.forward(images(64, 32, 16, 12, torch.float32))
    again = tiled.forward(x), *tiled.backward(upper, True)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_the_input_gets_no_gradient_unless_requested():
    _, tiled = convolution(2, 2)
    tiled.forward(images(3, 2, 8, 8))
    assert tiled.backward(images(3, 2, 4, 4), False)[0] is None


def test_convolutions_without_a_bias_agree():
    module, tiled = convolution(2, 3, bias=False)
    x = images(2, 2, 8, 8)
    torch.testing.assert_close(tiled.forward(x), module(x).detach(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("module", "suits"),
    [
        (nn.Conv2d(32, 64, 5), True),
        (nn.Conv2d(32, 32, 5, padding=2), True),
        (nn.Conv2d(31, 64, 5), False),
        (nn.Conv2d(64, 31, 5), False),
        (nn.Conv2d(32, 64, 3), False),
        (nn.Conv2d(32, 64, (5, 3)), False),
        (nn.Conv2d(32, 64, 5, stride=2), False),
        (nn.Conv2d(32, 64, 5, dilation=2), False),
        (nn.Conv2d(64, 64, 5, groups=2), False),
    ],
)
def test_tiles_suit_large_stride_one_convolutions(module, suits):
    assert Tiles.suit(module) is suits


@pytest.mark.parametrize(
    ("x", "fits"),
    [
        (images(2, 32, 12, 8), True),
        (images(2, 32, 12, 9), False),
        (images(2, 32, 4, 12), False),
        (images(2, 32, 12, 12).contiguous(), False),
    ],
)
def test_tiles_fit_large_channels_last_images(x, fits):
    _, tiled = convolution(32, 32)
    assert tiled.fit(x) is fits


def test_chunks_cover_each_image_once():
    for images_, size_each in ((1, 4), (10, 4), (70, 9), (3, 100), (64, 1), (65, 1)):
        chunks = tiles._chunks(images_, size_each)
        assert [first for first, _ in chunks] == [
            sum(size for _, size in chunks[:index]) for index in range(len(chunks))
        ]
        assert sum(size for _, size in chunks) == images_
        assert max(size for _, size in chunks) == chunks[0][1] <= max(1, 64 // size_each)
