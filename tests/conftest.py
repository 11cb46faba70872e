"""Settings of all tests."""

import signal
from importlib.util import find_spec

import pytest
import torch
from hypothesis import settings

from fedtempo.data.cache_dir import data_folder
from fedtempo.learning.examples import Examples
from fedtempo.learning.state import FlatModel

# The duration of an example depends more on the machine than on the code.
settings.register_profile("fedtempo", deadline=None)
settings.load_profile("fedtempo")

# Background jobs of a shell and their children ignore Ctrl-C, so tests that send it would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("transformers") and not all(map(find_spec, ("transformers", "peft"))):
        pytest.skip("needs transformers and peft: pip install 'fedtempo[transformers]', or `make test-transformers`")
    if item.get_closest_marker("tune") and find_spec("optuna") is None:
        pytest.skip("needs Optuna: pip install 'fedtempo[tune]', or `make test-tune`")
    if item.get_closest_marker("fashion_mnist") and not (folder := data_folder("fashion-mnist")).is_dir():
        pytest.skip(f"needs Fashion-MNIST ({folder} does not exist): `apt-get install dataset-fashion-mnist`")


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in double precision instead of single.

    Two correct computations of the same thing then agree to 1e-10 on every processor: a visit rounds some thousand
    times by 2^-53, and even a thousandfold growth of that through its steps stays below 1e-10. In single precision the
    same two differ by an amount that depends on the processor's kernels.
    """
    for kind in (FlatModel, Examples):
        _, *others = kind.__init__.__defaults__
        monkeypatch.setattr(kind.__init__, "__defaults__", (torch.float64, *others))
