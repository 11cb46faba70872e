"""Why fedtempo does not offer Flower's SecAgg+: what SECURITY.md says about the version that fedtempo pins."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common import ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.quantization import dequantize, quantize
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.server.workflow import SecAggPlusWorkflow

pytestmark = pytest.mark.deploy

client: Any = import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")

NODES = (1, 2, 3)
RANGE = 2**22


def settings(nodes: int, threshold: int) -> dict[str, Any]:
    """Return what the server sends first."""
    return {
        Key.SAMPLE_NUMBER: nodes,
        Key.SHARE_NUMBER: nodes,
        Key.THRESHOLD: threshold,
        Key.CLIPPING_RANGE: 8.0,
        Key.TARGET_RANGE: RANGE,
        Key.MOD_RANGE: 2**32,
        Key.MAX_WEIGHT: 100.0,
    }


def masked(models: dict[int, float], threshold: int) -> dict[int, Any]:
    """Let clients do all stages but the last; return their states. models: of one parameter each."""
    states = {}
    keys = {}
    for nid in models:
        states[nid] = client.SecAggPlusState()
        states[nid].nid = nid
        configs = ConfigRecord(settings(len(models), threshold))
        client.check_configs("setup", configs)
        sent = client._setup(states[nid], configs)
        keys[str(nid)] = [sent[Key.PUBLIC_KEY_1], sent[Key.PUBLIC_KEY_2]]
    ciphertexts: dict[int, dict[int, Any]] = {nid: {} for nid in models}
    for nid, state in states.items():
        sent = client._share_keys(state, ConfigRecord(dict(keys)))
        for to, text in zip(sent[Key.DESTINATION_LIST], sent[Key.CIPHERTEXT_LIST], strict=True):
            ciphertexts[to][nid] = text
    for nid, state in states.items():
        configs = ConfigRecord(
            {Key.SOURCE_LIST: [*ciphertexts[nid]], Key.CIPHERTEXT_LIST: [*ciphertexts[nid].values()]}
        )
        parameters = ndarrays_to_parameters([np.array([models[nid]])])
        assert client._collect_masked_vectors(state, configs, 10, parameters)[Key.MASKED_PARAMETERS]
    return states


def test_flowers_workflow_runs_only_flowers_own_strategies_in_rounds() -> None:
    workflow = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2)
    with pytest.raises(TypeError, match="Expect a LegacyContext"):
        workflow(None, Context(1, 1, {}, RecordDict(), {}))


def test_clients_give_a_server_that_asks_all_secrets_of_a_single_client() -> None:
    states = masked({nid: nid / 10 for nid in NODES}, threshold=2)
    seeds, keys = [], []
    for state in states.values():
        answer = client._unmask(
            state, ConfigRecord({Key.ACTIVE_NODE_ID_LIST: [*NODES], Key.DEAD_NODE_ID_LIST: [NODES[0]]})
        )
        shares = dict(enumerate(answer[Key.SHARE_LIST]))
        seeds.append(shares[0])
        keys.append(shares[len(NODES)])
    victim = states[NODES[0]]
    assert combine_shares(seeds) == victim.rd_seed, "the mask of its own"
    assert combine_shares(keys) == victim.sk1, "the key of the masks that it shares with others"


def test_a_server_may_choose_a_sum_of_one_model() -> None:
    (state,) = masked({1: 0.5}, threshold=1).values()
    answer = client._unmask(state, ConfigRecord({Key.ACTIVE_NODE_ID_LIST: [1], Key.DEAD_NODE_ID_LIST: []}))
    assert combine_shares(answer[Key.SHARE_LIST]) == state.rd_seed


def test_models_are_clipped_and_rounded_at_random() -> None:
    values = [np.array([9.0, -100.0, *np.linspace(-1, 1, 1000)])]
    first, again = (dequantize(quantize(values, 8.0, RANGE), 8.0, RANGE)[0] for _ in range(2))
    assert np.allclose(first[:2], [8.0, -8.0])
    assert not np.array_equal(first, again)
    assert np.abs(first[2:] - values[0][2:]).max() > np.finfo(np.float32).eps
