"""Ray is asked for by name, and only who names it needs it."""

import subprocess
import sys

import pytest

from fedtempo.config import ExecutorSettings
from fedtempo.errors import ConfigError
from fedtempo.learning.networks import Logistic
from fedtempo.runtime.executors.on_ray import OnRay
from fedtempo.runtime.executors.ray_models import Location, Parameters, Recipe
from tests.runtime.test_executors_processes import job


def test_where_ray_is_not_installed_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"^executor.kind = 'ray': needs Ray: pip install 'fedtempo\[ray\]'$"):
        OnRay(job(Logistic()))


def test_nobody_else_imports_it():
    code = "import sys, fedtempo.launch; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("options", [{"num_cpus": -1.0}, {"num_gpus": -0.5}, {"resources": {"tpu": 0.0}}])
def test_an_actor_claims_nothing_that_is_less_than_nothing(options):
    with pytest.raises(ValueError, match="greater than"):
        ExecutorSettings(kind="ray", **options)


def test_a_model_that_can_be_made_again_is_free_when_nobody_wants_it_and_another_when_no_descendant_is_left():
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
