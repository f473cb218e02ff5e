"""What a task provides for training and for readers: data, an experiment, and facts. `tasks/task.py` is the task."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from variations.configuration.schema import choice, number
from variations.store.ledger import RunFolder
from variations.system.rounding import decimal

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters with their own schedule."""

    name: str
    parameters: list["nn.Parameter"]
    rate: Callable[[int], float]
    """The learning rate as a function of the update, counted from 1."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the optimiser for this group, such as `weight_decay`."""


class Place(Protocol):
    """Where an experiment computes: one process, possibly of several."""

    device: "torch.device"
    rank: int
    world: int

    def precision(self) -> AbstractContextManager[Any]:
        """A context in which forward passes use `trainer.precision`."""
        ...

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over all ranks, element by element."""
        ...


class Data(Protocol):
    """A task's data; a LightningDataModule, so that Lightning moves its batches to the device."""

    accumulate: int
    """Number of batches per rank in one update."""

    def prepare_data(self) -> None:
        """Download and build what is missing; called in one process of each machine."""
        ...

    def setup(self, stage: str | None = None) -> None:
        """Open what was built; called in every process."""
        ...

    def train_dataloader(self) -> Any:
        """Batches of an epoch, in a loader of any kind. A run continues within an epoch from the loader's `state_dict`.

        If the loader has none, batches that were already trained on are loaded again and discarded, and the global
        random generators are seeded for each epoch and batch (`training.loaders.Continuing`). That does not apply to
        several loaders (a list, a `CombinedLoader`), which continue as Lightning lets them. On several ranks, a
        `DataLoader` is shared out batch by batch, unless its sampler has `num_replicas` or its dataset is iterable.
        """
        ...

    def batches(self) -> int:
        """The number of batches of an epoch on one rank."""
        ...

    def keep_facts(self, folder: RunFolder) -> dict[str, str]:
        """Store files such as the vocabulary with the run; return the SHA-256 of inputs by name."""
        ...


class Experiment(Protocol):
    """A network in training, in one process. Batches are the task's own, with `to(device)`, `index` and a length.

    Required are `network`, `parameter_groups`, `losses`, `count`, `validate` and `test`; the others have defaults.
    """

    network: "nn.Module"

    def parameter_groups(self) -> list[ParameterGroup]:
        """The parameter groups; the rate of the first is shown as the run's learning rate."""
        ...

    def start(self, place: Place) -> None:
        """Check what the device supports; called before the first update."""
        return

    def losses(self, batch: Any) -> Sequence["Tensor"]:
        """Sums over the batch, in the order of `Task.losses`; the first is minimised."""
        ...

    def count(self, batch: Any) -> list[int]:
        """The batch's contribution to the run's totals, in the order of `Task.units`."""
        ...

    def size(self, batch: Any) -> str:
        """The length of the batch's longest items, as text; the default is for items of equal length."""
        return "one"

    def halves(self, batch: Any) -> tuple[Any, Any]:
        """The batch as two, for when memory runs out; the default is for a batch that is a sequence."""
        half = len(batch) // 2
        return batch[:half], batch[half:]

    def before_update(self, units: int) -> None:
        """Change the gradients of an update, which are means over its `units` of the loss, in place."""
        return

    def after_update(self, step: int) -> None:
        """Restore the parameters' constraints after update `step`."""
        return

    def metrics(self) -> dict[str, Any]:
        """Quantities of the weights to record: numbers, or lists of numbers."""
        return {}

    def validate(self, place: Place) -> dict[str, float]:
        """Evaluate the current weights on the dev set, as `dev/<name>`; the network is in evaluation mode."""
        ...

    def dev_scores(self) -> list[float]:
        """The latest validation's score of each dev item, for a search's test over items."""
        return []

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Test the current weights: `scores` and `loss` of result.json, and further entries.

        Tables print the sentences of the entry `remarks` (a list) below, with the row.
        """
        ...


PERCENT = (0.0, 100.0)
"""The range of a score in percent."""
POSITIVE = (0.0, float("inf"))
"""The range of a loss or a perplexity."""


@dataclass(frozen=True)
class Measure:
    """A number of a tested run's result.json: `scores.<set>.<score>.value`, `loss.<key>`, or a cost at its top."""

    key: str
    """`test.bleu`, `dev_ppl`, …"""
    label: str
    """Heading of its column."""
    higher_is_better: bool
    convention: str | None = None
    """How it is computed, if the result does not say."""
    unit: str = ""
    set: str = "test"
    """The data it was measured on."""
    items: str = ""
    """The items over which it sums, in the plural, such as `sentences`; empty: differences are not tested."""
    digits: int = 2
    """Number of decimals."""
    part_of: str = ""
    """Key of the measure of which it is a part, as one task's error is a part of the mean over tasks; tables list parts
    below, one in each line."""
    is_loss: bool = False
    """Whether it is a loss or a perplexity, whose units and held-out text `Task.loss_scale` names."""
    range: tuple[float, float] | None = None
    """Its least and its largest possible value; None: not known. A result outside it is damaged."""

    def value(self, result: Mapping[str, Any]) -> float | None:
        """The number; None if the run did not measure it."""
        entry = self._entry(result)
        found = entry.get("value") if isinstance(entry, Mapping) else entry
        return float(found) if isinstance(found, int | float) else None

    def text(self, value: float) -> str:
        """A value as tables print it."""
        return decimal(value, self.digits)

    def told_convention(self, result: Mapping[str, Any]) -> str | None:
        """How it was computed, from the result, or else from the task."""
        entry = self._entry(result)
        if not isinstance(entry, Mapping):
            return self.convention
        parts = [str(entry[name]).rstrip(".") for name in ("convention", "signature") if entry.get(name)]
        return "; ".join(parts) or self.convention

    def _entry(self, result: Mapping[str, Any]) -> Any:
        part, _, score = self.key.partition(".")
        if not score:
            return (result.get("loss") or {}).get(part, result.get(part))
        return ((result.get("scores") or {}).get(part) or {}).get(score)


@dataclass(frozen=True)
class Published:
    """A column of a paper's table: its data, its convention, and the measures that correspond to it."""

    key: str
    label: str
    text: str = ""
    """The data on which it was measured, as text; empty if unknown."""
    convention: str = ""
    measures: tuple[str, ...] = ()
    """Our measures, from equal to similar convention; empty if no difference can be taken."""
    is_cost: bool = False
    """Whether it is a cost of training, for which no differences between rows are taken."""
    unit: str = ""
    """Whether measures with the same unit are ranked against it, even on other data."""


CurveReader = Callable[[str], Sequence[tuple[float, float]]]
"""As `Measurements.curve` of a run."""


@dataclass(frozen=True)
class TestedRun:
    """A finished run in the form that readers use."""

    __test__ = False  # not a test case, despite its name
    folder: RunFolder
    config: Mapping[str, Any]
    result: Mapping[str, Any]
    known: CurveReader | None = None
    """Has the run's curves already; None: they are read from its folder."""

    def curve(self, key: str) -> Sequence[tuple[float, float]]:
        """As `Measurements.curve`."""
        return (self.known or self.folder.measurements.curve)(key)


@dataclass(frozen=True)
class Restarts:
    """The contribution of each of a run's R restarts to a measure; the run reports the restart with the lowest training
    error."""

    items: "NDArray[Any]"
    """(R, S, k): values of each of S items, as `Task.items` returns them for the reported restart."""
    group: "NDArray[Any]"
    """(S): the group, 0 to G − 1, of each item, such as its task; a restart is chosen in each group separately."""
    order: "NDArray[Any]"
    """(G, R): the restarts by training error; the first, with the lowest, is reported."""


@dataclass(frozen=True)
class Recorded:
    """A quantity in metrics.jsonl for curves."""

    label: str
    higher_is_better: bool = False
    logarithmic: bool = False
    """Whether it is drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Size:
    """The size of a run, counted without measuring anything."""

    parameters: int
    flops: int
    """FLOPs of the whole training, by arithmetic."""
    activations: int | None = None
    """Bytes that are kept for the backward pass of one batch on one device; None: not counted."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """Further counts of the task, by the keys of `Task.sizes`."""


@dataclass(frozen=True)
class Rehearsal:
    """Data for measuring the cost of a run."""

    data: Data
    share: float = 1.0
    """The fraction of the training items that is read."""
    invented: bool = False
    """Whether the data are missing here, and replaced by items of similar lengths."""


@dataclass(frozen=True)
class Samples:
    """The model's outputs for some items of a set, for people to read."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float]]


@dataclass
class Asked:
    """Which attention of a trained run to draw; a task uses the keys that apply to it."""

    line: int | None = number(None, ge=1)
    """Line of the test set: for attention without sentence (null: the first), and for drawings (null: some)."""
    sentence: str | None = None
    """Source sentence for attention; null: a line of the run's own test set."""
    target: str | None = None
    """Its translation; null: the run's own."""
    items: list[str] | None = None
    """Item for attention in a run of question answering; 2-17 is question 17 of bAbI's task 2."""
    part: str = choice("all", "all", "encoder", "decoder", "cross")
    """For branch_weights and attention; `decoder` is its self-attention, `cross` is cross-attention."""
    layer: int | None = number(None, ge=1)
    """Layer from 1, for branch_weights and attention; null: all."""
    heads: list[int] | None = None
    """Only these heads, from 1."""
    words: list[str] | None = None
    """In the drawing with lines between words, draw only the lines that start at these words."""


@dataclass(frozen=True)
class Verb:
    """A command that a task provides."""

    work: Callable[[Any, Callable[[Path], tuple["nn.Module", Any]]], None]
    """The function, which receives an instance of `schema` and a loader of a run folder's tested network with its
    configuration. Its docstring is the head of `--help`."""
    schema: type[Any]
    """Dataclass of its keys."""
    examples: Mapping[str, str]
    """Arguments, and what they do, shown by `--help`."""


@dataclass(frozen=True)
class Drawing:
    """A drawing of a tested item and the model's output."""

    line: int
    """Its line in the set, from 1."""
    title: str
    """The item as text."""
    svg: str
    """In the page's own text colour, with only the elements `line`, `rect`, `text` and `title`."""
