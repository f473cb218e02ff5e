"""What a task is. Training, sweeps, tables, figures and the dashboard know nothing else of one.

A task is described by a `Task`, which imports no torch, so that a table or `--help` stays quick. To train, a run asks
it for two objects: `Data`, what the task learns from, and an `Experiment`, a network with its loss. A task of another
package is an object of the same shape, named by an entry point (see `configuration/tasks.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from variations.configuration.tasks import Configured
from variations.store.ledger import RunFolder

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters with a schedule of their own."""

    name: str
    parameters: list["nn.Parameter"]
    rate: Callable[[int], float]
    """Learning rate of an update, counted from 1."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the optimiser for this group, such as `weight_decay`."""


class Place(Protocol):
    """Where an experiment computes: one process of perhaps several."""

    device: "torch.device"
    rank: int
    world: int

    def precision(self) -> AbstractContextManager[Any]:
        """Within it, the forward pass computes as `trainer.precision` says."""
        ...

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over all ranks, element by element."""
        ...


class Data(Protocol):
    """What a task learns from; a LightningDataModule, so that Lightning moves its batches."""

    accumulate: int
    """Batches of each rank that make one update."""

    def prepare_data(self) -> None:
        """Download and build what is not there yet; in one process of each machine."""
        ...

    def setup(self, stage: str | None = None) -> None:
        """Open what was built; in every process."""
        ...

    def train_dataloader(self) -> Any:
        """Batches of an epoch. A run continues in mid-epoch by its `state_dict`, or by the counts of the Trainer."""
        ...

    def batches(self) -> int:
        """Batches of an epoch on one rank."""
        ...

    def keep_facts(self, folder: RunFolder) -> dict[str, str]:
        """Keep with the run what belongs to it, such as its vocabulary; return SHA-256 of inputs by name."""
        ...


class Experiment(Protocol):
    """A network that learns, in one process. Batches are the task's own, with `to(device)`, `index` and a length."""

    @property
    def network(self) -> "nn.Module":
        """The network."""
        ...

    def parameter_groups(self) -> list[ParameterGroup]:
        """The first group's rate is shown as the run's learning rate."""
        ...

    def start(self, place: Place) -> None:
        """See what the device can do; before the first update."""
        ...

    def losses(self, batch: Any) -> Sequence["Tensor"]:
        """Sums over the batch, as `Task.losses` names them; gradients are of the first."""
        ...

    def count(self, batch: Any) -> list[int]:
        """What the batch adds to the run's totals, in the order of `Task.units`."""
        ...

    def size(self, batch: Any) -> str:
        """How long the batch's longest items are, in words."""
        ...

    def halves(self, batch: Any) -> tuple[Any, Any]:
        """Two batches that are the one, for when memory runs out."""
        ...

    def before_update(self) -> None:
        """Change the gradients of an update, which are means, in place."""
        ...

    def after_update(self, step: int) -> None:
        """Put the parameters back under their constraints after update `step`."""
        ...

    def metrics(self) -> dict[str, Any]:
        """What is recorded of the weights themselves: numbers, or lists of numbers."""
        ...

    def validate(self, place: Place) -> dict[str, float]:
        """Measure the present weights on the dev set, as `dev/<name>`; the network is in evaluation mode."""
        ...

    def dev_scores(self) -> list[float]:
        """The latest validation's score of each dev item, for a search's test over items."""
        ...

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Test the present weights: `scores` and `loss` of result.json, and what else the result holds."""
        ...


@dataclass(frozen=True)
class Measure:
    """A number that a tested run has: `scores.<set>.<score>.value` or `loss.<key>` of its result.json."""

    key: str
    """`test.bleu`, `dev_ppl`, …"""
    label: str
    """Heading of its column."""
    higher_is_better: bool
    convention: str | None = None
    """How it is computed, where the result does not say."""
    unit: str = ""
    set: str = "test"
    """The data it was measured on."""
    items: str = ""
    """What it is a function of sums over, in the plural, such as `sentences`; empty: its differences are not tested."""
    digits: int = 2
    """Printed after the point."""
    part_of: str = ""
    """Key of the measure that it is a part of, as one task's error is of the mean over tasks; tables show the parts
    below, one a line."""

    def value(self, result: Mapping[str, Any]) -> float | None:
        """The number, or None where the run did not measure it."""
        entry = self._entry(result)
        found = entry.get("value") if isinstance(entry, Mapping) else entry
        return float(found) if isinstance(found, int | float) else None

    def told_convention(self, result: Mapping[str, Any]) -> str | None:
        """How it was computed, as the result says, else as the task says."""
        entry = self._entry(result)
        if not isinstance(entry, Mapping):
            return self.convention
        parts = [str(entry[name]).rstrip(".") for name in ("convention", "signature") if entry.get(name)]
        return "; ".join(parts) or self.convention

    def _entry(self, result: Mapping[str, Any]) -> Any:
        part, _, score = self.key.partition(".")
        if not score:
            return (result.get("loss") or {}).get(part)
        return ((result.get("scores") or {}).get(part) or {}).get(score)


@dataclass(frozen=True)
class Published:
    """A column of a paper's table: on which data, by which convention, and which of our measures equals it."""

    key: str
    label: str
    text: str = ""
    """What it was measured on, in words; empty where nothing is known of it."""
    convention: str = ""
    measures: tuple[str, ...] = ()
    """Our measures, from the same convention to a near one; none where no difference can be taken."""
    is_cost: bool = False
    """It says what training cost, of which no difference between rows is taken."""
    unit: str = ""
    """Measures of the same unit are ranked against it, be it on other data."""


@dataclass(frozen=True)
class TestedRun:
    """A finished run as a reader holds it."""

    __test__ = False  # no test case, whatever pytest makes of its name
    folder: RunFolder
    config: Mapping[str, Any]
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Restarts:
    """What each of a run's R restarts adds to a measure, where the run reports the one that learned its data best."""

    items: "NDArray[Any]"
    """(R, S, k): of each of S items, as `Task.items` has them of the reported restart."""
    group: "NDArray[Any]"
    """(S): restarts are chosen in each of G groups of items by itself, such as tasks; which one an item is of."""
    order: "NDArray[Any]"
    """(G, R): the restarts, from the one with the least training error, which is reported."""


@dataclass(frozen=True)
class Recorded:
    """A number of metrics.jsonl that curves are drawn of."""

    label: str
    higher_is_better: bool = False
    logarithmic: bool = False
    """Drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Size:
    """What a run comes to, counted before anything is measured."""

    parameters: int
    flops: int
    """Of the whole training, by arithmetic."""
    activations: int | None = None
    """Bytes that the backward pass keeps of one batch on one device; None: not counted."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """What else the task counts, by the keys of `Task.sizes`."""


@dataclass(frozen=True)
class Rehearsal:
    """Data on which the cost of a run is measured."""

    data: Data
    share: float = 1.0
    """The part of the training items that is read."""
    invented: bool = False
    """Only the lengths of the items are like those of the data, which are not here."""


@dataclass(frozen=True)
class Samples:
    """What the model did with some items of a set, for people to read."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float]]


@dataclass(frozen=True)
class Drawing:
    """A tested item and what became of it, drawn."""

    line: int
    """Its place in the set, from 1."""
    title: str
    """The item in words."""
    svg: str
    """In the text colour of the page around it; of `line`, `rect`, `text` and `title` alone."""


class Task(Configured, Protocol):
    """A kind of experiment: what it learns from, what it minimises, how it is judged. Importing it imports no torch."""

    losses: Sequence[str]
    """Sums that `Experiment.losses` returns; the first is minimised. Logged as `train/<name>`, per loss unit."""
    units: Sequence[str]
    """What batches are counted in: first items, then what metrics show too, such as `target_tokens`; `flops` last."""
    loss_unit: str
    """The unit that the loss is a sum over: gradients are divided by it."""
    monitor: str
    """The validation's number that selects the best weights: the lowest."""
    shown: Mapping[str, str]
    """What the progress line shows of a validation: `{"dev/ppl": "dev ppl {:.2f}"}`."""

    def profile(self, config: Any, device: str) -> Mapping[str, str]:
        """What the task chose for this device, in words by topic."""
        ...

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
        ...

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """What result.json adds to the run's totals, such as the part of a batch that is no padding."""
        ...

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """Some items of each tested set, as stored in the run's folder."""
        ...

    def pictures(self, folder: RunFolder, experiment: Experiment) -> Mapping[str, Path]:
        """PNG files of what the tested network attends to, by part."""
        ...

    def attended(
        self, folder: RunFolder, config: Any, network: "nn.Module", items: Sequence[str]
    ) -> Iterator[tuple[str, Any]]:
        """Figures of what a trained run attends to for some test items, named as the task names them; none: a few.

        `network` has the tested weights. Each figure comes with a name for its file. Raises UserError for an item that
        there is not, or a task without such figures.
        """
        ...

    drawn: str
    """What a drawing of a tested item shows, such as `predicted tree over its gold tree`; empty: none are drawn."""

    def drawings(self, folder: RunFolder, part: str, line: int | None = None) -> Sequence[Drawing]:
        """Tested items of a set: that of a line, or some that tell much; none where the run does not keep their text.

        Raises DataError for a line that the set has not, and for files that are not what a run writes.
        """
        ...

    # What readers of stored runs ask: tables, sweeps, searches, the dashboard. `tasks/measured.py` has usual answers.

    metrics: Sequence[str]
    """Keys of the usual measures, for messages."""
    curves: Mapping[str, Recorded]
    """What runs record along the way and readers show first, by key: `dev/ppl`, `train/nll`."""
    untrained_when: str
    """When `untrained` finds that a row was not trained: what follows on "A row that"."""

    def metric(self, name: str) -> Measure:
        """The measure that `sweep.metric=name` means. May raise UserError if there is none."""
        ...

    def measure(self, key: str) -> Measure:
        """The measure of a key; may raise UserError if there is none."""
        ...

    def unknown_metric(self, name: str, others: Sequence[str] | None = None) -> str | None:
        """Say that `sweep.metric` has no such measure, and which there are; None if there is one.

        With `others`, of a search, whose metrics are keys: those of measures, or of these costs.
        """
        ...

    def unmeasured(self, keys: Sequence[str], config: Any) -> list[str]:
        """A clause for each reason why a run of this configuration will not measure some of them, and what to add."""
        ...

    def watched(self, key: str) -> str | None:
        """The validations' number that goes with a measure of whatever set, such as `dev/ppl`; None where none does."""
        ...

    def unprunable(self, key: str, config: Any, *, by_item: bool) -> list[str]:
        """Why a search cannot give up trials by `watched(key)`; with `by_item`, by a test over dev items.

        Each continues a sentence that begins with the key of the pruner, punctuation included.
        """
        ...

    def columns(self, metric: Measure) -> Sequence[Measure]:
        """What a table shows, the sweep's metric first."""
        ...

    def published(self, key: str) -> Published:
        """What a key of `variation.published` means; an unknown one gets a column of its own and is never compared."""
        ...

    def data_name(self, config: Mapping[str, Any]) -> str:
        """The measured data in words: `toy en-de`."""
        ...

    def conditions(self, config: Mapping[str, Any], *, scaled: bool) -> str:
        """What a table's footnote says of data and settings; with `scaled` also the share of the papers' sizes."""
        ...

    def incomparable(self, published: Published, config: Mapping[str, Any]) -> str | None:
        """Why a published and a measured figure cannot be compared; None if they were taken on the same data."""
        ...

    def caveats(self, published: Published, key: str, config: Mapping[str, Any]) -> list[str]:
        """What else differs between two figures on the same data: convention, scale, amount of data."""
        ...

    def references(self, folder: RunFolder, part: str) -> str | None:
        """A digest of what the items of a set were judged by; None where it is not kept."""
        ...

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> "NDArray[Any]":
        """What each tested item adds to a measure, (items, k): `aggregate` of their sum is the measure.

        With `cache`, what took long to count may be kept beside the run. Raises DataError if the run has not stored
        what is needed, or the measure is no function of sums over items.
        """
        ...

    def aggregate(self, measure: Measure, sums: "NDArray[Any]") -> "NDArray[Any]":
        """The measure of sums over items, (…, k) to (…)."""
        ...

    def restarts(self, run: TestedRun, measure: Measure) -> Restarts | None:
        """The items of each restart, where a run has several; None where it has one, or has not stored them."""
        ...

    def untrained(self, runs: Sequence[TestedRun], part: str) -> str | None:
        """Why a row counts as not trained, by measurements of its seeds and their scores on a set; None if not."""
        ...

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """What a published record of a run holds besides the files of every run: bytes or plain data by file name."""
        ...

    # What planning asks; `tasks/planned.py` has usual answers.

    sizes: Mapping[str, str]
    """Further counts of `size` and the headings of their columns; without one they stand in JSON and CSV alone."""
    untimed: Sequence[str]
    """Keys of its own that change no update's time."""
    switches: Sequence[str]
    """Numbers of its own of which only counts, for that time, whether they are zero."""
    smaller: str
    """What to do where memory is short: `lower trainer.tokens_per_batch`."""

    def settings(self, config: Any) -> str:
        """The main settings of a base row, in the papers' symbols."""
        ...

    def size(self, config: Any, *, memory: bool, vocabulary: int | None = None) -> Size:
        """Count a run; with `vocabulary`, as if it had so many sub-words. Raises UserError where data are missing."""
        ...

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """Conventions of the counts, by the tables' titles."""
        ...

    def one_of(self, config: Any, devices: int) -> Any:
        """The configuration of what one of several devices does in an update."""
        ...

    def rehearsal(self, config: Any) -> Rehearsal:
        """Data like the run's; nothing is downloaded."""
        ...

    def testing(self, experiment: Experiment, folder: RunFolder, place: Place, limit: float) -> tuple[float, float]:
        """Seconds of a validation, and of all that follows the training; measured within about `limit` if it can."""
        ...
