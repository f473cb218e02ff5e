"""What a task is. Training, sweeps, tables, figures and the dashboard use a task only through this protocol.

A `Task` imports no torch, so that a table or `--help` stays quick. For training it provides two objects of
`tasks/base.py`: `Data`, and an `Experiment`, a network with its loss. A task of another package is an object with the
same members, named by an entry point (see `configuration/tasks.py`).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from variations.configuration.rules import Fault, switched_off
from variations.configuration.schema import DEFAULT_METRIC
from variations.configuration.suggestions import did_you_mean
from variations.configuration.tasks import Configured
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.base import (
    Asked,
    Data,
    Drawing,
    Experiment,
    Measure,
    Place,
    Published,
    Recorded,
    Rehearsal,
    Restarts,
    Samples,
    Size,
    TestedRun,
)
from variations.tasks.schedules import ema_rate
from variations.tasks.scored import Scored, ToScore

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn


def loss_scale(
    task: "Task", measure: Measure, config: Mapping[str, Any], result: Mapping[str, Any], inputs: Mapping[str, str]
) -> dict[str, Any]:
    """What a run's loss depends on besides its network, by name; empty for a score. See `Task.loss_scale`."""
    part = validated_on(config) if measure.key.startswith("dev_") else {}
    if measure.key.startswith("test_"):
        part = values_of(config, ["trainer.limit_test"])
    return {**part, **(task.loss_scale(config, result, inputs) if measure.is_loss else {})}


def validated_on(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys, with values, that decide which part of the dev set the dev loss covers."""
    limit = "trainer.limit_val_batches"
    found = {limit: (config.get("trainer") or {}).get("limit_val_batches")}
    if found[limit] is not None:  # then the size of batches matters, which devices share
        keys = (
            "trainer.tokens_per_batch",
            "trainer.devices",
            "trainer.nodes",
            "recipe.batch_tokens",
            "data.max_length",
        )
        found |= values_of(config, keys)
    return found


def values_of(config: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The values of those keys of two parts, such as `data.form`, that the configuration has."""
    parts = {key: key.split(".") for key in keys}
    return {key: config[group][name] for key, (group, name) in parts.items() if name in (config.get(group) or {})}


class Task(Configured, Protocol):
    """A kind of experiment: its data, its loss, and its measures. Importing it imports no torch.

    Most members have defaults here. A task must define `name`, `schema`, `losses`, `units`, `loss_unit`, `monitor`,
    `data`, `experiment`, `network` and `measure`, and for tests of significance `items`.
    """

    losses: Sequence[str]
    """Names of the sums of `Experiment.losses`; the first is minimised. Logged as `train/<name>`, per loss unit."""
    units: Sequence[str]
    """Units in which batches are counted: items, then units for metrics, such as `target_tokens`, and `flops` last."""
    flops_counted: str = "those that the task counts"
    """How FLOPs are counted, for a footnote: what continues `FLOPs are `."""
    parameters_counted: str = ""
    """Whose parameters are counted, if not those of one network: what continues `Parameters are `."""
    loss_unit: str
    """The unit over which the loss is summed; gradients are divided by its count."""
    limited: bool = True
    """Whether `trainer.limit_test` and `trainer.limit_val_batches` make its tests and validations shorter."""
    monitor: str
    """The quantity in validations whose lowest value selects the best weights."""
    shown: Mapping[str, str] = {}
    """Quantities of a validation in the progress line: `{"dev/ppl": "dev ppl {:.2f}"}`."""

    def effective(self, flat: dict[str, Any]) -> dict[str, Any]:
        """The decay of the moving average is at most that of the last update."""
        if flat.get("recipe.ema") and flat.get("trainer.max_steps"):
            flat["recipe.ema"] = ema_rate(flat["recipe.ema"], flat["trainer.max_steps"] - 1)
        return flat

    def batches_of_update(self, config: Mapping[str, Any]) -> Any:
        """Into which batches an update is divided, on one device or on several; equal if its items are the same."""
        trainer = config.get("trainer") or {}
        return [trainer.get(key) for key in ("tokens_per_batch", "devices", "nodes")]

    def without_effect(self, flat: Mapping[str, Any]) -> Mapping[str, Fault]:
        """Keys of Adam, which other optimisers do not read, and the distance of checkpoints that are not averaged."""
        off = {}
        if flat.get("recipe.optimizer") not in ("adam", "adamw", None):
            keys = ("recipe.beta1", "recipe.beta2", "recipe.eps")
            off = switched_off(keys, "recipe.optimizer", "it is a key of recipe.optimizer=adam and adamw")
        if flat.get("recipe.average") == 1:
            off |= switched_off(["recipe.average_every"], "recipe.average", "recipe.average=1 averages nothing")
        return off

    def foreseen(self, config: Any) -> list[str]:
        """What limits the result of a run and is known before it is trained: clauses, to follow its row and a colon."""
        return []

    def profile(self, config: Any, device: str) -> Mapping[str, str]:
        """The task's choices for this device, as text by topic."""
        return {}

    def data(self, config: Any) -> Data:
        """The run's data; nothing is read yet."""
        ...

    def experiment(self, config: Any, data: Data, device: str) -> Experiment:
        """The network, newly initialised; `data` is set up."""
        ...

    def network(self, config: Any, folder: RunFolder) -> "nn.Module":
        """The network of a stored run, without its weights. Raises UserError if the run has not started training."""
        ...

    def changed_inputs(self, config: Any, folder: RunFolder) -> list[str]:
        """Changes in the files from which a stored run was trained, one sentence each."""
        return []

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """Further entries of result.json from the run's totals, such as the fraction of batches that is not padding."""
        return {}

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """Some items of each tested set, as stored in the run's folder."""
        return {}

    def pictures(self, folder: RunFolder, experiment: Experiment) -> Mapping[str, Path]:
        """PNG files of the tested network's attention, by part."""
        return {}

    def attended(self, folder: RunFolder, config: Any, network: "nn.Module", asked: Asked) -> Iterator[tuple[str, Any]]:
        """Figures of a trained run's attention, each with a file name; `network` has the tested weights.

        Raises UserError for what does not exist, or for a task without such figures.
        """
        raise UserError(f"{folder.path}: figure=attention draws nothing for a run of this task.")

    nearness: str = "exact match"
    """The measure that `near` computes."""

    def outputs(self, folder: RunFolder, part: str) -> Sequence[tuple[str, ...]]:
        """Source, reference and output of each item of a tested set; empty if the run does not store their text.

        Raises DataError, ValueError or OSError for files that were not written by a run.
        """
        return ()

    def near(self, outputs: Sequence[str], references: Sequence[str]) -> list[float]:
        """The similarity of each output to its reference, 0 to 100."""
        return [100.0 * (ours == theirs) for ours, theirs in zip(outputs, references, strict=True)]

    drawn: str = ""
    """What a drawing of a tested item shows, such as `predicted tree over its gold tree`; empty: no drawings."""

    def drawings(self, folder: RunFolder, part: str, line: int | None = None) -> Sequence[Drawing]:
        """Drawings of tested items of a set: of one line, or of some informative ones; empty if the text is not stored.

        Raises DataError for a line that the set does not have, and for files that were not written by a run.
        """
        return ()

    verbs: Mapping[str, str] = {}
    """Commands of the task, with the `Verb` of each: `{"translate": "package.module:VERB"}`."""

    def score(self, asked: ToScore) -> Scored:
        """Scores of files or of a stored run. Raises UserError if it cannot be scored; by default always."""
        raise UserError(f"task={self.name} scores no files: the scores of a run are in its result.json.")

    def answering(
        self, folder: RunFolder, config: Any, network: "nn.Module", **search: Any
    ) -> Callable[[Sequence[str]], list[str]]:
        """A function from lines of text to the outputs of a trained run; `network` has the tested weights.

        Raises UserError if the run does not process text.
        """
        raise UserError(f"{folder.path} is a run of task={self.name}: its network translates no text.")

    # For readers of stored runs: tables, sweeps, searches, the dashboard.

    scores: Mapping[str, tuple[str, str]] = {}
    """Heading and convention of each score of a tested set, by its name without the set."""
    metrics: Sequence[str] = ()
    """Keys of the usual measures, for messages."""
    curves: Mapping[str, Recorded] = {}
    """Quantities that runs record during training and readers show first, by key: `dev/ppl`, `train/nll`."""
    tested_keys: Sequence[str] = ()
    """Keys that decide what the dev and test sets contain: scores of runs with other values are not comparable."""
    loss_keys: Sequence[str] = ()
    """Further keys that decide the units of losses, or the examples that are held out for them."""
    made_inputs: Sequence[str] = ()
    """Names of those inputs (`Data.keep_facts`) that are made of the texts, such as a vocabulary."""
    untrained_when: str = "is never found untrained"
    """When `untrained` reports a row as not trained: a clause that follows "A row that"."""

    def same_texts(self, config: Mapping[str, Any]) -> Sequence[str]:
        """Keys of `data` that change what a run of this configuration makes of its texts, but not the texts.

        Runs that differ in no other key of `data` must have read equal texts to be compared.
        """
        return ()

    def metric(self, name: str) -> Measure:
        """The measure that `sweep.metric=name` means: a key, or a score of the test set without the set's name."""
        return self.measure(name if "." in name or name in self.metrics else f"test.{name}")

    def primary(self, name: str | None) -> Measure:
        """The measure of a stored run's `sweep.metric`; of a run outside a sweep, which has none, the first score."""
        if name in (None, DEFAULT_METRIC) and self.unknown_metric(DEFAULT_METRIC):
            name = f"test.{next(iter(self.scores))}" if self.scores else self.metrics[0]
        return self.metric(name or DEFAULT_METRIC)

    def measure(self, key: str) -> Measure:
        """The measure of a key. Raises UserError if there is none; by default always."""
        valid = [*self.scores, *self.metrics]
        if key in self.scores:
            raise UserError(f"{key} is a score of each tested set: write test.{key} or dev.{key}.")
        raise UserError(f"There is no measure '{key}'.{did_you_mean(key, valid)} Valid: {', '.join(valid)}.")

    def unknown_metric(self, name: str, others: Sequence[str] | None = None) -> str | None:
        """Say that there is no such measure for `sweep.metric`, and which exist; None if there is one.

        With `others`, for a search, whose metrics are keys of measures or of these costs.
        """
        if others is not None and name in others:
            return None
        try:
            self.metric(name) if others is None else self.measure(name)
        except UserError as error:
            return str(error)
        return None

    def metric_fault(self, name: str | None) -> str | None:
        """What is wrong with `sweep.metric=name`; None if nothing. As in `primary`, any task takes the default."""
        return None if name in (None, DEFAULT_METRIC) else self.unknown_metric(str(name))

    def unmeasured(self, keys: Sequence[str], config: Any) -> list[str]:
        """For each reason why a run of this configuration will not measure some of them, a clause with what to add."""
        return []

    def watched(self, key: str) -> str | None:
        """The quantity in validations that corresponds to a measure of any set; None if there is none.

        `dev/nll` corresponds to `dev_nll`, and `dev/f1` to `test.f1`.
        """
        part, _, score = key.partition(".")
        return f"dev/{score}" if score else part.replace("_", "/", 1)

    def unprunable(self, key: str, config: Any, *, by_item: bool) -> list[str]:
        """Why a search cannot prune trials by `watched(key)`, or with `by_item` by a test over dev items.

        Each reason continues a sentence that starts with the pruner's key, and includes its punctuation.
        """
        found = [] if key.startswith("dev") else [f": {key} is known only at the end; prune by a score of the dev set."]
        if by_item and not self.measure(key).higher_is_better:
            found.append(
                f" compares scores of single dev items, of which more are better, but less {key} is better: choose a "
                "score, or another kind."
            )
        return found

    def validated_keys(self, key: str) -> Sequence[str]:
        """Keys of the configuration that decide on how many dev items `watched(key)` is measured."""
        return ()

    def columns(self, metric: Measure) -> Sequence[Measure]:
        """The columns of a table: the sweep's metric, then `further` ones."""
        return [metric, *(self.measure(key) for key in self.further(metric) if key != metric.key)]

    def further(self, metric: Measure) -> Sequence[str]:
        """Keys of the columns besides the sweep's metric."""
        return ()

    def published(self, key: str) -> Published:
        """The meaning of a key of `variation.published`; an unknown one gets its own column and is never compared."""
        return Published(key, key.replace("_", " "))

    def data_name(self, config: Mapping[str, Any]) -> str:
        """The name of the data: `toy en-de`."""
        return str((config.get("data") or {}).get("name", "unknown data"))

    def conditions(self, config: Mapping[str, Any], result: Mapping[str, Any], *, scaled: bool) -> str:
        """Data and settings for a table's footnote; with `scaled` also the fraction of the papers' sizes.

        `result` is that of a finished run with this configuration; empty if there is none.
        """
        name = (config.get("recipe") or {}).get("name")
        return f"{self.data_name(config)}, recipe {name}" if name else self.data_name(config)

    def scaled_sizes(self, config: Mapping[str, Any]) -> str | None:
        """The sizes of a network that has only a fraction of the paper's: `N = 1`; None if it has all of them."""
        return None

    def misnamed(self, result: Mapping[str, Any]) -> str | None:
        """Why a run's data are not those that its configuration names; None if they are, or if that is not known."""
        return None

    def incomparable(self, published: Published, config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
        """Why a published and a measured figure cannot be compared; None if both are for the same data."""
        return f"published as {published.key}: no measured figure of this kind"

    def caveats(
        self, published: Published, key: str, config: Mapping[str, Any], result: Mapping[str, Any]
    ) -> list[str]:
        """Other differences between two figures for the same data: convention, scale, amount of data."""
        return []

    def loss_scale(
        self, config: Mapping[str, Any], result: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """What the losses of a run depend on besides its network, by name: their units and the held-out examples.

        By default the values of `tested_keys` and `loss_keys`. Losses of two runs are compared only if these are equal,
        apart from names that only one of them has. `inputs` are the SHA-256 of the run's inputs by name.
        """
        return values_of(config, (*self.tested_keys, *self.loss_keys))

    def references(self, folder: RunFolder, part: str) -> str | None:
        """A digest of a set's references; None if it is not stored."""
        return None

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> "NDArray[Any]":
        """The contribution of each tested item to a measure, (items, k): `aggregate` of the sum is the measure.

        With `cache`, counts that take long may be stored in the run's folder. Raises DataError if the run has not
        stored what is needed, or if the measure cannot be computed from sums over items.
        """
        raise DataError(f"no values of single items are stored for {measure.label}")

    def aggregate(self, measure: Measure, sums: "NDArray[Any]") -> "NDArray[Any]":
        """The measure from sums over items, (…, k) to (…); by default a mean, from sums of values and of ones."""
        mean: NDArray[Any] = sums[..., 0] / sums[..., 1]
        return mean

    def restarts(self, run: TestedRun, measure: Measure) -> Restarts | None:
        """The items of each restart of a run with several; None if it has one, or has not stored them."""
        return None

    def untrained(self, runs: Sequence[TestedRun]) -> str | None:
        """Why a row counts as not trained, by its seeds' measurements and scores; None if it is trained."""
        return None

    def unjudged(self, runs: Sequence[TestedRun]) -> str | None:
        """Why nobody can tell from the measurements whether a row's runs are trained; None if that can be told."""
        return None

    def past_its_best(self, runs: Sequence[TestedRun]) -> str | None:
        """A note if a row's runs were better before their last step; None if not, or if that is unknown."""
        return None

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """Further files of a run's published record, by name: bytes or plain data. `items` must find its files."""
        return {}

    # For plans.

    sizes: Mapping[str, str] = {}
    """Further counts of `size` with their column headings; without a heading, they are only in JSON and CSV."""
    untimed: Sequence[str] = ()
    """Keys of its own that do not affect the time of an update."""
    switches: Sequence[str] = ()
    """Numbers of its own for which, for that time, it only matters whether they are zero."""
    smaller: str = "lower the batch size, or the model's"
    """What to do if memory is short: `lower trainer.tokens_per_batch`."""
    steadier: str = "lower recipe.lr, lengthen recipe.warmup, or set recipe.clip"
    """What to change if training diverges."""

    def settings(self, config: Any) -> str:
        """The main settings of a base row, in the papers' symbols; by default the parts of a single run's name."""
        return " ".join(self.label(config))

    def size(self, config: Any, *, memory: bool, vocabulary: int | None = None) -> Size:
        """Count the network and the first batch; with `vocabulary`, as if it had that number of sub-words.

        Raises UserError if data are missing.
        """
        from variations.tasks.counting import counted

        return counted(self, config, memory=memory)

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """Conventions of the counts, by the tables' titles."""
        return ["FLOPs: of the whole training, extrapolated from the first batch."] if any(tables.values()) else []

    def one_of(self, config: Any, devices: int) -> Any:
        """The configuration of one device's share in an update; by default the whole update."""
        return config

    def needs_download(self, config: Any) -> bool:
        """Whether the run can be counted and measured only after its data have been downloaded."""
        return False

    def rehearsal(self, config: Any) -> Rehearsal:
        """Data like the run's, without downloads; by default the data themselves."""
        return Rehearsal(self.data(config))

    def testing(self, experiment: Experiment, folder: RunFolder, place: Place, limit: float) -> tuple[float, float]:
        """Seconds of a validation, and of everything after training; measured within about `limit` if possible.

        By default, both are done once, regardless of `limit`.
        """
        began = time.perf_counter()
        experiment.validate(place)
        validated = time.perf_counter()
        experiment.test(folder, place)
        return validated - began, time.perf_counter() - validated
