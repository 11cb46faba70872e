"""The checks of `benchmarks.gpu`: on a CUDA device, and here on small networks that they run and can fail."""

import math

import numpy as np
import pytest
import torch

from benchmarks import gpu
from fedtempo.learning.networks import CharLstm, Cnn, Mlp

SMALL = {
    "cnn": gpu.Model(Cnn((4,), pool_after=(1,), batch_norm=True, hidden=()), (1, 8, 8)),
    "mlp": gpu.Model(Mlp((8,)), (6,)),
    "lstm": gpu.Model(CharLstm(hidden=8), (5,), 12),
}


@pytest.mark.gpu
def test_the_gpu_trains_like_the_cpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    assert [check for check in gpu.checks("cuda") if not check.passed] == []


def test_the_checks_pass_when_both_devices_are_the_cpu():
    checks = list(gpu.checks("cpu", SMALL, sizes=(30, 17, 8)))
    assert [check for check in checks if not check.passed] == []
    assert len({check.name for check in checks}) == len(checks) == len(SMALL) * 14 + 4


def test_the_checks_detect_differences():
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal(50).astype(np.float32) for _ in range(3)]
    good = gpu.Outcome(vectors, [{"loss": 1.0}] * 3, 2.0)
    near = [vectors[0], vectors[1] * np.float32(1.01), vectors[2]]
    bad = gpu.Outcome(near, [{"loss": 1.0}, {"loss": 1.1}, {"loss": 1.0}], 2.0)
    start = np.zeros(50, dtype=np.float32)
    assert (gpu.differing(good, good), gpu.differing(bad, good)) == (0, 2)
    assert gpu.change_difference(bad, good, start) == pytest.approx(0.01, rel=1e-3)
    assert gpu.loss_difference(bad, good) == pytest.approx(0.1)
    assert gpu.loss_difference(gpu.Outcome(vectors, good.statistics, 2.2), good) == pytest.approx(0.1)
    assert not gpu.Check("change", gpu.change_difference(bad, good, start), gpu.MODELS["lenet"].change).passed
    assert not gpu.Check("nothing", math.nan, 1.0).passed


def test_speeds_are_measured_for_each_network_and_way_of_training():
    speeds = list(gpu.speeds("cpu", {"mlp": SMALL["mlp"]}, streams={"mlp": (1, 2)}, seconds=0.01, clients=3))
    assert [(speed.network, speed.way) for speed in speeds] == [
        ("mlp", "step by step"),
        ("mlp", "graphs, 1 streams"),
        ("mlp", "graphs, 2 streams"),
    ]
    assert all(speed.visits_per_s > 0 for speed in speeds)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is present")
def test_a_missing_gpu_is_reported_in_one_line(capsys):
    assert gpu.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("benchmarks.gpu: executor.device = 'cuda'")
    assert captured.err.count("\n") == 1
