"""Run a configuration on the real clients of a grid, and record it in a folder like a simulation's."""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.data.dataset import Dataset
from fedtempo.data.sources import NOTHING
from fedtempo.deploy.garbage import frequent_collections
from fedtempo.deploy.live.announced import most_times
from fedtempo.deploy.live.event_log import EventLog, Interruption, ReceivedModelFiles, online_at_the_end
from fedtempo.deploy.live.federation import LiveFederation
from fedtempo.deploy.live.joining import Admission, JoinedClient, wait_for_clients, wait_for_nodes
from fedtempo.deploy.live.loop import play
from fedtempo.deploy.live.messages import DataNames, Grid
from fedtempo.deploy.live.roster import Description, as_clients
from fedtempo.deploy.live.transport import Transport
from fedtempo.deploy.loads import Loads
from fedtempo.deploy.remembering import forget, forget_unbegun
from fedtempo.deploy.remembering import remember as write_options
from fedtempo.errors import ConfigError
from fedtempo.federation import Client
from fedtempo.learning.metrics import check_metrics
from fedtempo.learning.networks import create
from fedtempo.learning.pretrained import InitialState
from fedtempo.learning.priors import balanced_weights, label_prior
from fedtempo.learning.training import Training
from fedtempo.parts.inputs import input_shape
from fedtempo.record import Recorder, RunFolder, load_run
from fedtempo.record.journal import Journal, read_identity
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config
from fedtempo.runs.facts import facts_of
from fedtempo.runs.identity import identity, must_agree
from fedtempo.runs.launch import Watch
from fedtempo.runs.models import TrainedModels, models_of, record_models
from fedtempo.runs.run import Loaded, finish, leave_results
from fedtempo.runs.splits import of_data
from fedtempo.runs.world import check_inputs, check_loss, dealt_by, load_data
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.heartbeat import heartbeat
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.runner import simulate
from fedtempo.runtime.transfers import TransferSizes

if TYPE_CHECKING:
    from fedtempo.runtime.executors.inline import Inline


def deploy_to_folder(
    config: Config,
    path: Path,
    grid: Grid,
    *,
    remember: Mapping[str, Any] | None = None,
    watch: Watch | None = None,
    say: Callable[[str], None] = lambda _: None,
    recorder: Callable[..., Recorder] = Recorder,
    loaded: Loaded | None = None,
) -> dict[str, Any]:
    """Run once on the clients of `grid`, in a new folder; return the run's summary.

    remember: JSON values that `remembering.remembered` returns when the run is resumed. say: receives lines about
    clients that join. recorder: makes the run's recorder. loaded: see `fedtempo.runs.run.Run`.
    """
    forget_unbegun(path)
    folder = RunFolder.create(path, config.run.seed)
    try:
        with folder:
            write_options(folder, remember or {})
            write_text(folder.config, config.dump())
            return _deploy(config, folder, grid, None, watch, say, recorder, loaded)
    except ConfigError as error:
        if not error.keeps_run:
            shutil.rmtree(folder.path)  # the run never began
        raise


def resume_deployment(
    config: Config,
    folder: RunFolder,
    grid: Grid,
    *,
    remember: Mapping[str, Any] | None = None,
    force: bool = False,
    watch: Watch | None = None,
    say: Callable[[str], None] = lambda _: None,
    recorder: Callable[..., Recorder] = Recorder,
    loaded: Loaded | None = None,
) -> dict[str, Any]:
    """Resume a run on real clients whose server was killed or interrupted; return its summary.

    folder: claimed by `RunFolder.resume`. The clients are those of the interrupted run; replies that arrived meanwhile
    are fetched, and calls without a reply are sent again. Raises ConfigError if the configuration, the data, package
    versions or the code have changed since the run began; force: ignore versions and code.
    """
    check_identity(config, folder, force=force)
    journal = Journal.resume(folder.journal) if folder.journal.exists() else None
    write_options(folder, remember or {})
    folder.summary.unlink(missing_ok=True)
    return _deploy(config, folder, grid, journal, watch, say, recorder, loaded)


def conclude_deployment(config: Config, path: Path, *, loaded: Loaded | None = None) -> dict[str, Any]:
    """Complete the folder of a deployment that was killed after it had written its summary; return the summary."""
    from fedtempo.report.html import write_report

    with RunFolder.reopen(path) as folder:
        leave_results(folder, config.run.keep)
        recorded = load_run(path)
        write_report(folder.report, [recorded])
        forget(folder)
        if loaded is not None:
            loaded(recorded)
        return dict(recorded.summary or {})


def check_identity(config: Config, folder: RunFolder, *, force: bool = False) -> None:
    """Raise ConfigError if `resume_deployment` would, before a grid is joined."""
    if folder.journal.exists():
        began_with = {name: value for name, value in read_identity(folder.journal).items() if name != "clients"}
        must_agree(folder.path, began_with, identity(config, load_data(config).sha256, deployed=True), force)


def _deploy(
    config: Config,
    folder: RunFolder,
    grid: Grid,
    journal: Journal | None,
    watch: Watch | None,
    say: Callable[[str], None],
    recorder: Callable[..., Recorder],
    loaded: Loaded | None,
) -> dict[str, Any]:
    if config.data.source == NOTHING:
        raise ConfigError("data.source = 'none': the server evaluates on test data; name data as clients have them")
    if given := config.quality.given:
        raise ConfigError(f"data.partition.{given[0]}: real clients hold their own examples, as they are; remove it")
    dataset, sha256 = _tested_on(config), load_data(config).sha256
    for name, enabled in (("tell_labels", config.data.tell_labels), ("share_examples", config.data.share_examples)):
        if enabled and dataset.task != "classes":
            raise ConfigError(
                f"data.{name}: real clients count and share examples by class, but the labels of {dataset.name} are "
                f"{dataset.task}; set it to false"
            )
    if "state" in config.run.keep:
        raise ConfigError("run.keep: a run on real clients cannot be continued after its end; remove 'state'")
    if "clients" in config.run.keep:
        raise ConfigError("run.keep: real clients keep their layers in their state_folder; remove 'clients'")
    check_loss(config.training, dataset)
    check_metrics(config.run.metrics, dataset.task, dataset.n_classes, dataset.name)
    if (goal := config.run.goal) is not None and goal.name in config.run.client_measures:
        raise ConfigError(
            f"run.target = {config.run.target}: real clients are not evaluated on their own test sets; choose a "
            "measure of the server's test examples"
        )
    check_inputs(config.network, dataset)
    settings = config.deploy
    _, n_clients = dealt_by(config, dataset)
    n_test, n_known = len(dataset.test_y), len(load_data(config).train_y) + len(load_data(config).test_y)
    say(f"the server evaluates on {n_test:,} of its {n_known:,} examples ({dataset.name})")
    with frequent_collections():
        if journal is None:
            joined = wait_for_clients(
                grid,
                n_clients,
                settings.wait_s,
                _admission(config, dataset),
                at_least=settings.min_clients,
                say=say,
            )
            if config.run.checkpoint_every:
                clients = {
                    "run": uuid.uuid4().hex,
                    "met": [[client.node, asdict(client.description)] for client in joined],
                }
                journal = Journal.create(
                    folder.journal, {**identity(config, sha256, deployed=True), "clients": clients}
                )
        else:
            joined = [
                JoinedClient(node, Description.restored(description))
                for node, description in journal.identity["clients"]["met"]
            ]
            online = online_at_the_end(journal.came)
            wait_for_nodes(grid, len(joined) if online is None else online, settings.wait_s, say)
        with heartbeat(folder.now, watch) as watched:
            summary, models = _play(config, folder, grid, dataset, joined, journal, watched, recorder)
    finish(folder, summary, models, config.run.keep, loaded=loaded)
    if summary["ended"] != "interrupted":
        forget(folder)
    return summary


def _tested_on(config: Config) -> Dataset:
    """Return the server's data, with the test examples that `deploy.test_on` asks for."""
    dataset = load_data(config)
    if config.deploy.test_on == "test":
        return dataset
    x, y = (np.concatenate(both) for both in ((dataset.test_x, dataset.train_x), (dataset.test_y, dataset.train_y)))
    return replace(dataset, test_x=x, test_y=y, test_owners=None)


def _play(
    config: Config,
    folder: RunFolder,
    grid: Grid,
    dataset: Dataset,
    joined: Sequence[JoinedClient],
    journal: Journal | None,
    watch: Watch,
    make_recorder: Callable[..., Recorder],
) -> tuple[dict[str, Any], TrainedModels]:
    """Run with the clients that have joined; return the summary and the models."""
    from fedtempo.deploy.live.server import Server
    from fedtempo.runtime.executors.job import Job

    settings, seed = config.deploy, config.run.seed
    test, validation = of_data(config, dataset)
    test_x, test_y = test.inputs(dataset), test.labels(dataset)
    clients = as_clients(client.description for client in joined)
    names = [client.name for client in clients]
    fleet = config.fleet.build(len(clients), lambda purpose, *keys: keyed_generator(seed, purpose, *keys), names)
    training = _training(config, clients)
    job = Job(
        network=config.network,
        n_classes=dataset.n_classes,
        x=test_x,
        y=test_y,
        clients=(),
        test_x=test_x,
        test_y=test_y,
        validation_x=None if validation is None else validation.inputs(dataset),
        validation_y=None if validation is None else validation.labels(dataset),
        seed=seed,
        augment=config.data.augment,
        evaluation_batch=config.run.evaluation_batch,
        initial=_initial(config, dataset),
        exchange=config.exchange,
        metrics=config.run.metrics,
    )
    began, before_s = time.perf_counter(), journal.wall_s if journal else 0.0

    def wall_s() -> float:
        return before_s + time.perf_counter() - began

    files = ReceivedModelFiles(folder.models) if journal else None
    event_log = EventLog(journal, files)
    arithmetic: list[Journalled] = []

    def journalled(inline: Inline) -> Journalled:
        assert journal is not None
        assert files is not None
        executor = Journalled(inline, journal, files, every_s=config.run.checkpoint_every, wall_s=wall_s)
        arithmetic.append(executor)
        at_the_end.callback(executor.settle)
        return executor

    loads = Loads(len(clients))
    name = uuid.uuid4().hex if journal is None else journal.identity["clients"]["run"]
    with (
        contextlib.ExitStack() as at_the_end,  # even if the run fails: nothing is written once the folder is released
        contextlib.closing(make_recorder(folder.path, rows=config.run.record == "all")) as recorder,
        Server(job, None if journal is None else journalled) as server,
    ):
        histograms = [client.label_histogram for client in clients]
        facts = {
            **facts_of(
                config,
                dataset,
                training,
                n_clients=len(clients),
                n_train=sum(client.num_examples for client in clients),
                n_test=len(test),
                sizes=TransferSizes.of(server, compression=config.server.compression),
                n_validation=None if validation is None else len(validation),
            ),
            "client_names": names,
            "label_histograms": None if None in histograms else histograms,
            "deployment": True,
        }
        for fact, value in facts.items():
            recorder.fact(fact, value)
        recorder.fact("resumed", journal.resumed if journal else 0)
        for key in ("client_test_share", "test_clients", "validation_share"):
            if getattr(config.data, key) is not None:
                recorder.say(
                    f"data.{key}: not used here, since clients keep their examples: they train on all of them, and "
                    "models are evaluated on the server's examples only"
                )
        if server.sections.local:
            recorder.say(
                "only clients have their own parts of the model: evaluations use the first values of these parts"
            )
        recorder.flush()  # observers see the facts before the first visit has ended

        def make(**run: Any) -> LiveFederation:
            return LiveFederation(
                clients=clients,
                nodes=[client.node for client in joined],
                transport=partial(Transport, grid, run=name, refresh_s=settings.refresh_s),
                event_log=event_log,
                fleet=fleet,
                server=server,
                network=config.network_table,
                run=name,
                exchange={} if config.exchange.is_default else asdict(config.exchange),
                n_classes=dataset.n_classes,
                training=training,
                settings=settings,
                rules=config.server,
                recorder=recorder,
                seed=seed,
                admission=_admission(config, dataset),
                loads=loads,
                **run,
            )

        outcome = simulate(
            config.strategy,
            config.run,
            server,
            make,
            recorder,
            strategy_name=config.strategy_name,
            watch=watch,
            journal=Interruption(event_log, arithmetic[0]) if arithmetic else None,
            play=play,
            wait=False,
            validates=validation is not None,
        )
        if arithmetic:
            arithmetic[0].settle()
        recorder.finish(outcome.ended, outcome.end_s, outcome.model, outcome.reason)
        record_models(recorder, outcome)
        recorder.fact("wall_s", wall_s())
        recorder.fact("loads", loads.fact())
        recorder.fact("events_sha256", recorder.events_sha256)
        return recorder.summary(), models_of(outcome, server.naming)


def _admission(config: Config, dataset: Dataset) -> Admission:
    """Return what the run demands of clients that join it."""
    names = DataNames(dataset.class_names, dataset.feature_names)
    return Admission(
        config.deploy.names,
        input_shape(dataset.test_x),
        dataset.task,
        dataset.n_classes,
        names,
        most_times(config.deploy.max_change),
    )


def _initial(config: Config, dataset: Dataset) -> InitialState | None:
    """Return the initial state that the configuration names. Raises ConfigError if clients could not know all of it."""
    initial = config.initial.read()
    if initial is not None:
        module = create(config.network, dataset.test_x.shape[1:], dataset.n_classes, 0)
        if names := initial.integers_changed_in(module):
            raise ConfigError(
                f"model.initial: the integer buffer {names[0]} has other values than in the network that clients "
                "build, and integers are not sent to clients"
            )
    return initial


def _training(config: Config, clients: tuple[Client, ...]) -> Training:
    """Return the configured local training, with class shares taken from the clients' histograms if it needs them."""
    training = config.training
    balanced = training.class_weights == "balanced"
    if not balanced and (training.prior or training.loss != "logit-adjusted"):
        return training
    histograms = [client.label_histogram for client in clients if client.label_histogram is not None]
    if len(histograms) < len(clients):
        setting, instead = (
            ("class_weights = 'balanced'", "weights") if balanced else ("loss = 'logit-adjusted'", "prior")
        )
        raise ConfigError(
            f"training.{setting}: the class shares are unknown, since not all clients reveal their histogram; set "
            f"tell_labels = true in every client's TOML, or training.{instead} in the configuration"
        )
    prior = label_prior(np.sum(histograms, axis=0).tolist(), config.data.label_pseudo_count)
    return replace(training, class_weights=balanced_weights(prior)) if balanced else replace(training, prior=prior)
