"""The usual answers of a task to readers of stored runs, for a task to inherit: see `tasks/base.py: Task`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.base import Drawing, Measure, Published, Recorded, Restarts, TestedRun

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Measured:
    """A task needs `metrics` and `measure` of its own, and `items` for tests of significance."""

    metrics: Sequence[str] = ()
    drawn = ""
    curves: Mapping[str, Recorded] = {}
    untrained_when = "is never found untrained"

    def measure(self, key: str) -> Measure:
        """Raises UserError: there is none."""
        raise UserError(f"There is no measure '{key}'. Valid: {', '.join(self.metrics)}.")

    def metric(self, name: str) -> Measure:
        """A name is a key, unless it is the bare name of a score of the test set."""
        return self.measure(name if "." in name or name in self.metrics else f"test.{name}")

    def attended(self, folder: RunFolder, config: Any, network: Any, items: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Raises UserError: the task draws nothing of the kind."""
        raise UserError(f"{folder.path}: figure=attention draws nothing for a run of this task.")

    def unknown_metric(self, name: str, others: Sequence[str] | None = None) -> str | None:
        """As `metric` and `measure` say it."""
        if others is not None and name in others:
            return None
        try:
            self.metric(name) if others is None else self.measure(name)
        except UserError as error:
            return str(error)
        return None

    def unmeasured(self, keys: Sequence[str], config: Any) -> list[str]:
        """A run measures all there is."""
        return []

    def watched(self, key: str) -> str | None:
        """`dev_nll` goes with `dev/nll`, and `test.f1` with `dev/f1`."""
        part, _, score = key.partition(".")
        return f"dev/{score}" if score else part.replace("_", "/", 1)

    def unprunable(self, key: str, config: Any, *, by_item: bool) -> list[str]:
        """Only what is measured on the dev set is known before the end."""
        return (
            [] if key.startswith("dev") else [f": {key} is not known before the end; prune by a score of the dev set."]
        )

    def columns(self, metric: Measure) -> Sequence[Measure]:
        """The metric alone."""
        return [metric]

    def published(self, key: str) -> Published:
        """A column of its own."""
        return Published(key, key.replace("_", " "))

    def data_name(self, config: Mapping[str, Any]) -> str:
        """`data.name`."""
        return str((config.get("data") or {}).get("name", "unknown data"))

    def conditions(self, config: Mapping[str, Any], *, scaled: bool) -> str:
        """Data and recipe."""
        name = (config.get("recipe") or {}).get("name")
        return f"{self.data_name(config)}, recipe {name}" if name else self.data_name(config)

    def incomparable(self, published: Published, config: Mapping[str, Any]) -> str | None:
        """Nothing is known of published figures."""
        return f"published as {published.key}: no measured figure of this kind"

    def caveats(self, published: Published, key: str, config: Mapping[str, Any]) -> list[str]:
        """None."""
        return []

    def references(self, folder: RunFolder, part: str) -> str | None:
        """Not kept."""
        return None

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> "NDArray[Any]":
        """Raises DataError: no items are kept."""
        raise DataError(f"no values of single items are kept for {measure.label}")

    def aggregate(self, measure: Measure, sums: "NDArray[Any]") -> "NDArray[Any]":
        """The mean, of sums of values and of ones, (…, 2) to (…)."""
        mean: NDArray[Any] = sums[..., 0] / sums[..., 1]
        return mean

    def restarts(self, run: TestedRun, measure: Measure) -> Restarts | None:
        """A run is one training."""
        return None

    def untrained(self, runs: Sequence[TestedRun], part: str) -> str | None:
        """Nothing is known against it."""
        return None

    def drawings(self, folder: RunFolder, part: str, line: int | None = None) -> Sequence[Drawing]:
        """None: items are not drawn."""
        return ()

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """Nothing of its own."""
        return {}
