"""Ray is optional: only runs with executor.kind = 'ray' need it."""

import subprocess
import sys

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.learning.networks import Logistic
from fedtempo.runtime.executor_settings import ExecutorSettings
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import pack
from fedtempo.runtime.executors.on_ray import OnRay
from fedtempo.runtime.executors.ray_actor import Actor
from fedtempo.runtime.executors.ray_models import Location, Parameters, Recipe
from tests.runtime.test_executors import TRAINING, image_job
from tests.runtime.test_executors_processes import job


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"^executor.kind = 'ray': needs Ray: pip install 'fedtempo\[ray\]'$"):
        OnRay(job(Logistic()))


def test_launching_runs_does_not_import_ray():
    code = "import sys, fedtempo.runs.launch; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("options", [{"num_cpus": -1.0}, {"num_gpus": -0.5}, {"resources": {"tpu": 0.0}}])
def test_negative_or_zero_resources_of_an_actor_are_rejected(options):
    with pytest.raises(ValueError, match="greater than"):
        ExecutorSettings(kind="ray", **options)


def test_an_actor_trains_on_its_nodes_shared_copy_of_the_data():
    work = image_job()
    packed, given = pack(work, work.model().channels_last)
    arrays = {name: np.ascontiguousarray(array) for name, array in given.items()}
    for array in arrays.values():
        array.flags.writeable = False
    actor = Actor(packed, arrays)
    assert np.shares_memory(actor._trainer._examples._rows.numpy(), arrays["x"])
    with Inline(work) as inline:
        start = inline.vector(inline.initial())
        same = inline.train(inline.initial(), 1, 3, TRAINING).result()
        trained, (statistics, flaw) = actor.train(start, 1, 3, TRAINING)
        assert (trained == inline.vector(same.location)).all()
        assert (statistics, flaw) == (same.statistics, None)
        with pytest.raises(ValueError, match="read-only"):
            arrays["x"][0] = 0


def test_a_reproducible_model_is_freed_when_unused_and_its_ancestors_when_no_descendant_is_left():
    server = Parameters("reference")
    here = Location(server)
    trained = Parameters(recipe=Recipe("train", server, (0, 1)))
    trained.coming = "another"
    first, second = Location(trained), Location(trained)
    trained.arrive()
    del here, first
    assert (server.ref, trained.ref, trained.visits) == ("reference", "another", 1)
    del second
    assert (server.ref, trained.ref) == ("reference", None)
    dropped = Parameters(recipe=Recipe("train", trained, (0, 2)))
    dropped.coming = "a third"
    dropped.arrive()
    assert (dropped.ref, dropped.visits) == (None, 2)
