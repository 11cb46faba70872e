"""Images at half their height and width."""

from __future__ import annotations

import numpy as np

from fedtempo.studies.papers.images import halved


def test_each_pixel_is_the_mean_of_four() -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    assert halved(image).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert halved(np.zeros((3, 2, 28, 28), np.uint8)).shape == (3, 2, 14, 14)
