"""What a task gives to training and to readers: data, an experiment, and facts. The task itself is `tasks/task.py`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from variations.configuration.schema import choice, number
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
    """A network that learns, in one process. Batches are the task's own, with `to(device)`, `index` and a length.

    It says `network`, `parameter_groups`, `losses`, `count`, `validate` and `test`, and what else is its own.
    """

    network: "nn.Module"

    def parameter_groups(self) -> list[ParameterGroup]:
        """The first group's rate is shown as the run's learning rate."""
        ...

    def start(self, place: Place) -> None:
        """See what the device can do; before the first update."""
        return

    def losses(self, batch: Any) -> Sequence["Tensor"]:
        """Sums over the batch, as `Task.losses` names them; gradients are of the first."""
        ...

    def count(self, batch: Any) -> list[int]:
        """What the batch adds to the run's totals, in the order of `Task.units`."""
        ...

    def size(self, batch: Any) -> str:
        """How long the batch's longest items are, in words; here one is as long as another."""
        return "one"

    def halves(self, batch: Any) -> tuple[Any, Any]:
        """Two batches that are the one, for when memory runs out; here of a batch that is a sequence."""
        half = len(batch) // 2
        return batch[:half], batch[half:]

    def before_update(self) -> None:
        """Change the gradients of an update, which are means, in place."""
        return

    def after_update(self, step: int) -> None:
        """Put the parameters back under their constraints after update `step`."""
        return

    def metrics(self) -> dict[str, Any]:
        """What is recorded of the weights themselves: numbers, or lists of numbers."""
        return {}

    def validate(self, place: Place) -> dict[str, float]:
        """Measure the present weights on the dev set, as `dev/<name>`; the network is in evaluation mode."""
        ...

    def dev_scores(self) -> list[float]:
        """The latest validation's score of each dev item, for a search's test over items."""
        return []

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Test the present weights: `scores` and `loss` of result.json, and what else the result holds."""
        ...


@dataclass(frozen=True)
class Measure:
    """A number of a tested run's result.json: `scores.<set>.<score>.value`, `loss.<key>`, or a cost at its top."""

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
            return (result.get("loss") or {}).get(part, result.get(part))
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


CurveReader = Callable[[str], Sequence[tuple[float, float]]]
"""As `RunFolder.curve` of a run."""


@dataclass(frozen=True)
class TestedRun:
    """A finished run as a reader holds it."""

    __test__ = False  # no test case, whatever pytest makes of its name
    folder: RunFolder
    config: Mapping[str, Any]
    result: Mapping[str, Any]
    known: CurveReader | None = None
    """Has the run's curves already; None: they are read from its folder."""

    def curve(self, key: str) -> Sequence[tuple[float, float]]:
        """As `RunFolder.curve`."""
        return (self.known or self.folder.curve)(key)


@dataclass(frozen=True)
class Restarts:
    """What each of a run's R restarts adds to a measure, where the run reports the one that learned its data best."""

    items: "NDArray[Any]"
    """(R, S, k): of each of S items, as `Task.items` has them of the reported restart."""
    group: "NDArray[Any]"
    """(S): the group, 0 to G − 1, of each item, such as its task; the restart is chosen in each group separately."""
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


@dataclass
class Asked:
    """What of a trained run's attention is to be drawn; a task heeds what it has."""

    line: int | None = number(None, ge=1)
    """Which line of the test set: for attention without sentence (null: the first), and for drawings (null: some)."""
    sentence: str | None = None
    """What attention looks at; null: a line of the run's own test set."""
    target: str | None = None
    """Its translation; null: the run's own."""
    items: list[str] | None = None
    """What attention looks at in a run of another task; 2-17 is question 17 of bAbI's task 2."""
    part: str = choice("all", "all", "encoder", "decoder", "cross")
    """For branch_weights and attention; `decoder` is its self-attention, `cross` its attention to the source."""
    layer: int | None = number(None, ge=1)
    """Layer from 1, for branch_weights and attention; null: all."""
    heads: list[int] | None = None
    """Only these heads, from 1."""
    words: list[str] | None = None
    """Only lines from these words, in the drawing between words."""


@dataclass(frozen=True)
class Verb:
    """A command of a task's own."""

    work: Callable[[Any, Callable[[Path], tuple["nn.Module", Any]]], None]
    """Does it, given an instance of `schema` and what loads the tested network of a run's folder, with its
    configuration. Its docstring heads `--help`."""
    schema: type[Any]
    """Dataclass of its keys."""
    examples: Mapping[str, str]
    """Arguments, and what they do, shown by `--help`."""


@dataclass(frozen=True)
class Drawing:
    """A tested item and what became of it, drawn."""

    line: int
    """Its place in the set, from 1."""
    title: str
    """The item in words."""
    svg: str
    """In the text colour of the page around it; of `line`, `rect`, `text` and `title` alone."""
