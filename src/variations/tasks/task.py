"""What a task is. Training, sweeps, tables, figures and the dashboard know nothing else of one.

A `Task` imports no torch, so that a table or `--help` stays quick. To train, a run asks it for two objects of
`tasks/base.py`: `Data`, what the task learns from, and an `Experiment`, a network with its loss. A task of another
package is an object of the same shape, named by an entry point (see `configuration/tasks.py`).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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
from variations.tasks.scored import Scored, ToScore

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn


class Task(Configured, Protocol):
    """A kind of experiment: what it learns from, what it minimises, how it is judged. Importing it imports no torch.

    Most tasks answer as it is done here. A task says `name`, `schema`, `losses`, `units`, `loss_unit`, `monitor`,
    `data`, `experiment`, `network` and `measure`, `items` for tests of significance, and what else is its own.
    """

    losses: Sequence[str]
    """Sums that `Experiment.losses` returns; the first is minimised. Logged as `train/<name>`, per loss unit."""
    units: Sequence[str]
    """What batches are counted in: first items, then what metrics show too, such as `target_tokens`; `flops` last."""
    loss_unit: str
    """The unit that the loss is a sum over: gradients are divided by it."""
    monitor: str
    """The validation's number that selects the best weights: the lowest."""
    shown: Mapping[str, str] = {}
    """What the progress line shows of a validation: `{"dev/ppl": "dev ppl {:.2f}"}`."""

    def profile(self, config: Any, device: str) -> Mapping[str, str]:
        """What the task chose for this device, in words by topic."""
        return {}

    def data(self, config: Any) -> Data:
        """What the run learns from; nothing is read yet."""
        ...

    def experiment(self, config: Any, data: Data, device: str) -> Experiment:
        """The network, newly initialised; `data` is set up."""
        ...

    def network(self, config: Any, folder: RunFolder) -> "nn.Module":
        """The network of a stored run, without its weights. Raises UserError if the run has not begun to train."""
        ...

    def changed_inputs(self, config: Any, folder: RunFolder) -> list[str]:
        """What has changed since among the files that a stored run has learned from, a sentence each."""
        return []

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """What result.json adds to the run's totals, such as the part of a batch that is no padding."""
        return {}

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """Some items of each tested set, as stored in the run's folder."""
        return {}

    def pictures(self, folder: RunFolder, experiment: Experiment) -> Mapping[str, Path]:
        """PNG files of what the tested network attends to, by part."""
        return {}

    def attended(self, folder: RunFolder, config: Any, network: "nn.Module", asked: Asked) -> Iterator[tuple[str, Any]]:
        """Figures of what a trained run attends to, each with a name for its file; `network` has the tested weights.

        Raises UserError for what there is not, or a task without such figures.
        """
        raise UserError(f"{folder.path}: figure=attention draws nothing for a run of this task.")

    nearness: str = "exact match"
    """What `near` measures."""

    def outputs(self, folder: RunFolder, part: str) -> Sequence[tuple[str, ...]]:
        """Source, reference and output of each item of a tested set; none where the run does not keep their text.

        Raises DataError, ValueError or OSError for files that are not what a run writes.
        """
        return ()

    def near(self, outputs: Sequence[str], references: Sequence[str]) -> list[float]:
        """How near each output comes to its reference, 0 to 100."""
        return [100.0 * (ours == theirs) for ours, theirs in zip(outputs, references, strict=True)]

    drawn: str = ""
    """What a drawing of a tested item shows, such as `predicted tree over its gold tree`; empty: none are drawn."""

    def drawings(self, folder: RunFolder, part: str, line: int | None = None) -> Sequence[Drawing]:
        """Tested items of a set: that of a line, or some that tell much; none where the run does not keep their text.

        Raises DataError for a line that the set has not, and for files that are not what a run writes.
        """
        return ()

    verbs: Mapping[str, str] = {}
    """Commands of its own, and where the `Verb` of each is: `{"translate": "package.module:VERB"}`."""

    def score(self, asked: ToScore) -> Scored:
        """Scores of files, or of what a run has stored. Raises UserError for what cannot be scored, and here."""
        raise UserError(f"task={self.name} scores no files: the scores of a run are in its result.json.")

    def answering(
        self, folder: RunFolder, config: Any, network: "nn.Module", **search: Any
    ) -> Callable[[Sequence[str]], list[str]]:
        """What gives the answer of a trained run to each line of text; `network` has the tested weights.

        Raises UserError for a run that answers none.
        """
        raise UserError(f"{folder.path} is a run of task={self.name}: its network translates no text.")

    # What readers of stored runs ask: tables, sweeps, searches, the dashboard.

    scores: Mapping[str, tuple[str, str]] = {}
    """Heading and convention of each score of a tested set, by its bare name."""
    metrics: Sequence[str] = ()
    """Keys of the usual measures, for messages."""
    curves: Mapping[str, Recorded] = {}
    """What runs record along the way and readers show first, by key: `dev/ppl`, `train/nll`."""
    untrained_when: str = "is never found untrained"
    """When `untrained` finds that a row was not trained: what follows on "A row that"."""

    def metric(self, name: str) -> Measure:
        """The measure that `sweep.metric=name` means: a key, or the bare name of a score of the test set."""
        return self.measure(name if "." in name or name in self.metrics else f"test.{name}")

    def measure(self, key: str) -> Measure:
        """The measure of a key. Raises UserError if there is none, as it is done here."""
        valid = [*self.scores, *self.metrics]
        raise UserError(f"There is no measure '{key}'.{did_you_mean(key, valid)} Valid: {', '.join(valid)}.")

    def unknown_metric(self, name: str, others: Sequence[str] | None = None) -> str | None:
        """Say that `sweep.metric` has no such measure, and which there are; None if there is one.

        With `others`, of a search, whose metrics are keys: those of measures, or of these costs.
        """
        if others is not None and name in others:
            return None
        try:
            self.metric(name) if others is None else self.measure(name)
        except UserError as error:
            return str(error)
        return None

    def unmeasured(self, keys: Sequence[str], config: Any) -> list[str]:
        """A clause for each reason why a run of this configuration will not measure some of them, and what to add."""
        return []

    def watched(self, key: str) -> str | None:
        """The validations' number that goes with a measure of whatever set; None where none does.

        `dev/nll` goes with `dev_nll`, and `dev/f1` with `test.f1`.
        """
        part, _, score = key.partition(".")
        return f"dev/{score}" if score else part.replace("_", "/", 1)

    def unprunable(self, key: str, config: Any, *, by_item: bool) -> list[str]:
        """Why a search cannot give up trials by `watched(key)`; with `by_item`, by a test over dev items.

        Each continues a sentence that begins with the key of the pruner, punctuation included.
        """
        late = f": {key} is not known before the end; prune by a score of the dev set."
        return [] if key.startswith("dev") else [late]

    def columns(self, metric: Measure) -> Sequence[Measure]:
        """What a table shows: the sweep's metric, then `further` ones."""
        return [metric, *(self.measure(key) for key in self.further(metric) if key != metric.key)]

    def further(self, metric: Measure) -> Sequence[str]:
        """Keys of what a table shows besides the sweep's metric."""
        return ()

    def published(self, key: str) -> Published:
        """What a key of `variation.published` means; an unknown one gets a column of its own and is never compared."""
        return Published(key, key.replace("_", " "))

    def data_name(self, config: Mapping[str, Any]) -> str:
        """The measured data in words: `toy en-de`."""
        return str((config.get("data") or {}).get("name", "unknown data"))

    def conditions(self, config: Mapping[str, Any], *, scaled: bool) -> str:
        """What a table's footnote says of data and settings; with `scaled` also the share of the papers' sizes."""
        name = (config.get("recipe") or {}).get("name")
        return f"{self.data_name(config)}, recipe {name}" if name else self.data_name(config)

    def incomparable(self, published: Published, config: Mapping[str, Any]) -> str | None:
        """Why a published and a measured figure cannot be compared; None if they were taken on the same data."""
        return f"published as {published.key}: no measured figure of this kind"

    def caveats(self, published: Published, key: str, config: Mapping[str, Any]) -> list[str]:
        """What else differs between two figures on the same data: convention, scale, amount of data."""
        return []

    def references(self, folder: RunFolder, part: str) -> str | None:
        """A digest of what the items of a set were judged by; None where it is not kept."""
        return None

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> "NDArray[Any]":
        """What each tested item adds to a measure, (items, k): `aggregate` of their sum is the measure.

        With `cache`, what took long to count may be kept beside the run. Raises DataError if the run has not stored
        what is needed, or the measure cannot be computed from sums over items.
        """
        raise DataError(f"no values of single items are kept for {measure.label}")

    def aggregate(self, measure: Measure, sums: "NDArray[Any]") -> "NDArray[Any]":
        """The measure of sums over items, (…, k) to (…); here a mean, of sums of values and of ones."""
        mean: NDArray[Any] = sums[..., 0] / sums[..., 1]
        return mean

    def restarts(self, run: TestedRun, measure: Measure) -> Restarts | None:
        """The items of each restart, where a run has several; None where it has one, or has not stored them."""
        return None

    def untrained(self, runs: Sequence[TestedRun], part: str) -> str | None:
        """Why a row counts as not trained, by measurements of its seeds and their scores on a set; None if not."""
        return None

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """What a published record of a run holds besides the files of every run: bytes or plain data by file name."""
        return {}

    # What planning asks.

    sizes: Mapping[str, str] = {}
    """Further counts of `size` and the headings of their columns; without a heading, they are in JSON and CSV only."""
    untimed: Sequence[str] = ()
    """Keys of its own that change no update's time."""
    switches: Sequence[str] = ()
    """Numbers of its own of which only counts, for that time, whether they are zero."""
    smaller: str = "lower the batch size, or the model's"
    """What to do where memory is short: `lower trainer.tokens_per_batch`."""

    def settings(self, config: Any) -> str:
        """The main settings of a base row, in the papers' symbols; here what names a run outside a sweep."""
        return " ".join(self.label(config))

    def size(self, config: Any, *, memory: bool, vocabulary: int | None = None) -> Size:
        """Count the network and the first batch; with `vocabulary`, as if it had that number of sub-words.

        Raises UserError where data are missing.
        """
        from variations.tasks.counting import counted

        return counted(self, config, memory=memory)

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """Conventions of the counts, by the tables' titles."""
        return ["FLOPs: of the whole training, extrapolated from the first batch."] if any(tables.values()) else []

    def one_of(self, config: Any, devices: int) -> Any:
        """The configuration of what one of several devices does in an update; here each does the same."""
        return config

    def rehearsal(self, config: Any) -> Rehearsal:
        """Data like the run's; nothing is downloaded. Here the data themselves."""
        return Rehearsal(self.data(config))

    def testing(self, experiment: Experiment, folder: RunFolder, place: Place, limit: float) -> tuple[float, float]:
        """Seconds of a validation, and of all that follows the training; within about `limit`, if that can be.

        Here both are done once, however long they take.
        """
        began = time.perf_counter()
        experiment.validate(place)
        validated = time.perf_counter()
        experiment.test(folder, place)
        return validated - began, time.perf_counter() - validated
