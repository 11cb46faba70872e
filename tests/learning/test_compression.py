"""Compression of vectors: values worked out by hand, sizes, and bytes that no sender makes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.learning.compression import COMPRESSIONS, Compression, Compressor, Quantized, RandomK, Sign, TopK

ALL = [TopK(share=0.3), RandomK(share=0.3), RandomK(0.3, False), Quantized(8), Quantized(4, bucket=3), Sign()]
VECTOR = np.array([0.5, -2.0, 0.0, 1.5, -0.25], dtype=np.float32)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Draws:
    """A generator whose uniform draws are given."""

    def __init__(self, value: float) -> None:
        self._value = value

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self._value)


def round_trip(compression: Compression, vector: np.ndarray, generator: object = None) -> np.ndarray:
    data = compression.encode(vector, generator or rng())  # type: ignore[arg-type]
    assert len(data) == compression.n_bytes(vector.size)
    decoded = compression.decode(data, vector.size)
    assert decoded.dtype == np.float32
    return decoded


def test_top_k_sends_the_largest_entries_with_their_positions() -> None:
    assert round_trip(TopK(share=0.4), VECTOR).tolist() == [0, -2.0, 0, 1.5, 0]
    assert TopK(share=0.4).encode(VECTOR, rng()) == (
        bytes([1, 0, 0, 0, 3, 0, 0, 0]) + np.array([-2.0, 1.5], "<f4").tobytes()
    )
    assert TopK(share=0.01).n_bytes(1000) == 80
    assert TopK(share=0.001).n_bytes(5) == 8  # rounded up: one entry at least


def test_of_equal_magnitudes_top_k_takes_the_first() -> None:
    assert round_trip(TopK(share=0.5), np.array([1, -1, 1, -1], np.float32)).tolist() == [1, -1, 0, 0]


def test_random_k_is_right_on_average_without_error_feedback() -> None:
    compression = RandomK(share=0.4, error_feedback=False)
    sent = np.mean([round_trip(compression, VECTOR, rng(seed)) for seed in range(4000)], axis=0)
    # An entry v is 2.5 v with probability 0.4, so its standard error is |v| sqrt(1.5 / 4000) = 0.0194 |v|.
    assert np.abs(sent - VECTOR).max() < 5 * 0.0194 * 2.0
    one = round_trip(compression, VECTOR)
    assert np.count_nonzero(one) <= 2
    assert set(one) <= set((2.5 * VECTOR).tolist()) | {0.0}
    assert compression.n_bytes(5) == 8 + 2 * 4


def test_random_k_with_error_feedback_sends_entries_as_they_are() -> None:
    assert set(round_trip(RandomK(share=0.4), VECTOR)) <= set(VECTOR.tolist())


def test_levels_of_qsgd_worked_out_by_hand() -> None:
    # The norm of (3, 4, 0) is 5; 4 bits have 7 levels: 3 / 5 * 7 = 4.2 and 4 / 5 * 7 = 5.6.
    vector = np.array([3.0, -4.0, 0.0], dtype=np.float32)
    compression = Quantized(bits=4, bucket=3)
    assert round_trip(compression, vector, Draws(0.1)) == pytest.approx([5 * 4 / 7, -5 * 5 / 7, 0])  # down, down
    assert round_trip(compression, vector, Draws(0.5)) == pytest.approx([5 * 4 / 7, -5 * 6 / 7, 0])  # down, up
    assert round_trip(compression, vector, Draws(0.9)) == pytest.approx([5 * 5 / 7, -5 * 6 / 7, 0])  # up, up
    # The largest magnitude is 4: 3 / 4 * 127 = 95.25, and 4 is the top level.
    by_max = Quantized(bits=8, bucket=3, norm="max")
    assert round_trip(by_max, vector, Draws(0.5)) == pytest.approx([4 * 95 / 127, -4, 0])
    assert compression.n_bytes(5) == 2 * 4 + 3  # two norms, five half bytes rounded up
    assert by_max.n_bytes(5) == 2 * 4 + 5


@pytest.mark.parametrize("bits", [4, 8])
def test_qsgd_is_right_on_average(bits: int) -> None:
    compression = Quantized(bits=bits)  # type: ignore[arg-type]
    sent = np.mean([round_trip(compression, VECTOR, rng(seed)) for seed in range(4000)], axis=0)
    step = float(np.linalg.norm(VECTOR)) / (2 ** (bits - 1) - 1)
    assert np.abs(sent - VECTOR).max() < 5 * step / 2 / np.sqrt(4000)  # a draw varies by half a step at most


def test_signs_are_scaled_by_the_mean_magnitude() -> None:
    # The mean of 0.5, 2, 0, 1.5 and 0.25 is 0.85; 0 counts as positive.
    assert round_trip(Sign(), VECTOR) == pytest.approx([0.85, -0.85, 0.85, 0.85, -0.85])
    assert Sign().n_bytes(9) == 4 + 2


def test_what_a_message_leaves_out_comes_with_the_next() -> None:
    compressor = Compressor(TopK(share=0.2))
    data, left = compressor.sent(VECTOR, None, rng())
    assert compressor.received(data, 5).tolist() == [0, -2, 0, 0, 0]
    assert left is not None
    assert left.tolist() == [0.5, 0, 0, 1.5, -0.25]
    data, left = compressor.sent(np.array([0, 0, 1, 0, 0], np.float32), left, rng())
    assert compressor.received(data, 5).tolist() == [0, 0, 0, 1.5, 0]
    assert left is not None
    assert left.tolist() == [0.5, 0, 1, 0, -0.25]


def test_without_error_feedback_nothing_is_kept() -> None:
    assert Compressor(Quantized()).sent(VECTOR, None, rng())[1] is None


@pytest.mark.parametrize("compression", ALL, ids=repr)
@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), max_size=40),
    seed=st.integers(0, 1000),
)
def test_messages_have_the_stated_length_and_the_same_bits_for_the_same_seed(
    compression: Compression, values: list[float], seed: int
) -> None:
    vector = np.array(values, dtype=np.float32)
    first, second = (compression.encode(vector, rng(seed)) for _ in range(2))
    assert first == second
    assert len(first) == compression.n_bytes(vector.size)
    decoded = compression.decode(first, vector.size)
    assert decoded.shape == vector.shape
    assert np.isfinite(decoded).all()


@pytest.mark.parametrize("compression", ALL, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_not_hidden(compression: Compression, bad: float) -> None:
    vector = np.full(10, bad, dtype=np.float32)
    assert not np.isfinite(round_trip(compression, vector)).all()


@pytest.mark.parametrize("compression", ALL, ids=repr)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(compression: Compression, data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert compression.decode(data, 7).shape == (7,)


def test_bytes_that_no_sender_makes_are_refused() -> None:
    position = np.array([9], "<u4").tobytes() + np.array([1.0], "<f4").tobytes()
    with pytest.raises(ValueError, match="positions must ascend and be below 5"):
        TopK(share=0.2).decode(position, 5)
    with pytest.raises(ValueError, match="3 bytes; a message has 8"):
        TopK(share=0.2).decode(b"abc", 5)
    with pytest.raises(ValueError, match="levels must be -7 to 7"):
        Quantized(bits=4).decode(np.array([1.0], "<f4").tobytes() + b"\xff", 2)


def test_names_stand_for_compressions() -> None:
    assert {"top-k": TopK, "random-k": RandomK, "quantized": Quantized, "sign": Sign} == COMPRESSIONS
