"""PyTorch's settings are changed for training and restored afterwards."""

import os
import warnings

import pytest
import torch
import torch.utils.deterministic

from fedtempo.learning.numerics import fix_cublas_workspaces, fixed_device_numerics, fixed_numerics, torch_seed


def settings():
    return (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
    )


@pytest.mark.parametrize("fails", [False, True])
def test_settings_of_a_device_are_set_and_restored(fails):
    torch.set_float32_matmul_precision("high")
    try:
        before = settings()
        assert before[4:] == ("high", False, False, True)
        try:
            with fixed_device_numerics():
                assert settings() == (1, True, True, False, "highest", True, False, False)
                with warnings.catch_warnings(record=True) as seen:
                    warnings.warn("RNN module weights are not part of single contiguous chunk of memory.", stacklevel=1)
                assert not seen
                if fails:
                    raise RuntimeError
        except RuntimeError:
            assert fails
        assert settings() == before
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_users_cublas_workspace_setting_is_kept(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    fix_cublas_workspaces()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    fix_cublas_workspaces()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_seed_gives_the_same_draws_and_the_generator_is_restored():
    state = torch.get_rng_state()
    with torch_seed(3, torch.device("cpu")):
        first = torch.rand(3)
    with torch_seed(3):
        assert torch.equal(torch.rand(3), first)
    assert torch.equal(torch.get_rng_state(), state)


def test_autograd_and_autocast_are_restored_although_a_signal_prevented_the_end_of_their_blocks():
    def interrupted():
        torch.no_grad().__enter__()
        torch.autocast("cpu").__enter__()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), fixed_numerics():
        interrupted()
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
