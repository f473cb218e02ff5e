"""The package in Python, for notebooks and scripts: train, load, translate, score, and tables as plain records.

    run = variations.train("model=weighted", "size=tiny")
    run.translate(["the small cat sleeps"])
    variations.table("quickstart")

Nothing heavy is imported before a model is needed. A test runs the examples, in a folder in which
`variations train --multirun sweep=quickstart rows=[transformer]` has been run.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from variations.configuration.schema import RunConfig


@dataclass(frozen=True)
class TrainedRun:
    """A run that has been trained and tested."""

    path: Path
    """The run's folder."""
    config: "RunConfig" = field(repr=False)
    """The configuration that it was trained with."""
    result: dict[str, Any] = field(repr=False)
    """The contents of its `result.json`."""
    _answering: dict[Any, Callable[[Sequence[str]], list[str]]] = field(default_factory=dict, repr=False)

    @cached_property
    def network(self) -> "nn.Module":
        """The network with the weights that were tested, on the CPU and in evaluation mode.

            >>> import variations
            >>> run = variations.load("runs/quickstart/transformer/seed1")
            >>> sum(weights.numel() for weights in run.network.parameters()) == run.result["parameters"]
            True

        Raises:
            UserError: The run's checkpoints or other files of its network are missing, or its classes have changed.
        """
        from variations.training.weights import load_network

        return load_network(self.path)[0]

    def translate(self, lines: Sequence[str], *, beam: int | None = None, alpha: float | None = None) -> list[str]:
        """Return the best translation of each line.

            >>> import variations
            >>> run = variations.load("runs/quickstart/transformer/seed1")
            >>> len(run.translate(["the small cat sleeps", "", "a dog"], beam=2))
            3

        Args:
            lines: Sentences of the source language, not tokenised.
            beam: Beam size; None: as in the run's test.
            alpha: Exponent of the length penalty; None: as in the run's test.

        Raises:
            UserError: The run's checkpoint or vocabulary is missing, or a setting of the search is invalid.
            TypeError: `lines` is a single string, of which each letter would be a line, or `beam` or `alpha` no number.
        """
        if isinstance(lines, str):
            raise TypeError(f"translate needs a list of lines: [{lines!r}], not {lines!r}")
        lines = list(lines)
        if wrong := [line for line in lines if not isinstance(line, str)]:
            raise TypeError(f"translate needs lines of text, not {wrong[0]!r}")
        if not isinstance(beam, int | None) or not isinstance(alpha, int | float | None):
            raise TypeError(f"translate needs an integer for beam and a number for alpha, not {beam!r} and {alpha!r}")
        from variations.configuration.tasks import named
        from variations.store.ledger import RunFolder

        if (beam, alpha) not in self._answering:
            answering, folder = named(self.config.task).answering, RunFolder(self.path)
            self._answering[beam, alpha] = answering(folder, self.config, self.network, beam=beam, alpha=alpha)
        return self._answering[beam, alpha](lines)

    def score(self, set: str = "test") -> dict[str, float]:
        """Return the scores and losses of a tested set, by name; `variations score` prints each one's convention.

            >>> import variations
            >>> scores = variations.load("runs/quickstart/transformer/seed1").score()
            >>> 0 <= scores["bleu"] <= 100
            True

        A loss that was not finite is NaN.

        Args:
            set: A set on which the run was tested.

        Raises:
            UserError: The run was not tested on that set, or is damaged, as by a score that was changed by hand.
            TypeError: `set` is not a name.
        """
        if not isinstance(set, str):
            raise TypeError(f"score needs the name of a set, not {set!r}")
        from variations.configuration.compose import to_dict
        from variations.store.contents import refuse_damaged
        from variations.store.ledger import RunFolder
        from variations.system.errors import UserError
        from variations.tasks.base import TestedRun
        from variations.tasks.intact import damage

        scores, losses = (self.result.get(part) or {} for part in ("scores", "loss"))
        if set not in scores:
            raise UserError(f"{self.path} has no scores of set={set}; valid choices: {', '.join(sorted(scores))}.")
        folder = RunFolder(self.path)
        refuse_damaged(self.path, self.result, self.config.task, folder.config())
        if fault := damage(TestedRun(folder, to_dict(self.config), self.result)):
            raise UserError(f"{self.path} is damaged: {fault}.")
        found = {name: float(score["value"]) for name, score in scores[set].items()}
        of_set = {key.removeprefix(f"{set}_"): loss for key, loss in losses.items() if key.startswith(f"{set}_")}
        return found | {name: math.nan if loss is None else float(loss) for name, loss in of_set.items()}


def load(run: str | Path) -> TrainedRun:
    """Return a trained run, given its folder.

        >>> import variations
        >>> run = variations.load("runs/quickstart/transformer/seed1")
        >>> run.config.model.kind
        'transformer'
        >>> variations.load("nowhere")
        Traceback (most recent call last):
        ...
        variations.system.errors.UserError: ...

    Raises:
        UserError: There is no run, or it is not finished.
        TypeError: `run` is not a path.
    """
    if not isinstance(run, str | Path):
        raise TypeError(f"load needs the folder of a run, not {run!r}")
    from variations.configuration import compose
    from variations.store.ledger import RunFolder
    from variations.system.errors import UserError

    folder = RunFolder.open(Path(run).expanduser().absolute())  # it stays this run if the current folder changes
    if fault := folder.unfinished():
        raise UserError(f"{run} {fault}: run the same training command again to finish it.")
    return TrainedRun(folder.path, compose.load(folder.path / "config.yaml"), folder.result() or {})


def train(*overrides: str) -> TrainedRun:
    """Train, test and score one run, as `variations train` does with the same overrides, and return it.

    A finished run is returned unchanged, an interrupted one is continued. A process trains one run at a time, because
    its runs would share their random numbers; several are trained by several processes, as `--multirun` does.

    Raises:
        ConfigError: All faults of the configuration.
        UserError: The run cannot be started, or failed; or another thread of this process is training.
        Exception: A callback of yours raised it; the run is then marked as failed.
    """
    from variations.commands.preflight import preflight
    from variations.commands.run import execute
    from variations.configuration.compose import compose_run
    from variations.configuration.schema import RunConfig
    from variations.sweeping.table_jobs import single_run
    from variations.system.errors import ConfigError

    if wrong := [line for line in overrides if not isinstance(line, str)]:
        raise TypeError(f'train needs overrides as texts, train("model.N=1", "seed=2"), not {wrong[0]!r}')
    if found := preflight(overrides, RunConfig, "train", runs_models=True):
        raise ConfigError(found)
    return load(execute(compose_run(single_run(overrides))))


def table(
    sweep: str, *, runs: str | Path = "runs", rows: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> list[dict[str, Any]]:
    """Return a sweep's table as records, one for each row and seed: `pandas.DataFrame(variations.table("quickstart"))`.

        >>> import variations
        >>> records = variations.table("quickstart", rows=["transformer"])
        >>> [(record["row"], record["seed"], record["state"]) for record in records]
        [('transformer', 1, 'finished')]

    A record contains the row's name and label, the run's state and folder, each measured score under its key (None if
    missing), each published figure under `published KEY`, and under `notes` the caveats of the row and of its
    published figures, such as why it counts as not trained or why it must not be compared.

    Args:
        sweep: The name of a file in `sweeps/`, or of a grid.
        runs: Root of the run store.
        rows: Only these rows, their base rows, and their combinations with values of other keys.
        seeds: Only these seeds; None: those of the sweep file, and all others that have runs.

    Raises:
        UserError: `runs` is not a run store, the sweep has no rows, or `rows` names an unknown one.
        TypeError: `sweep` is not a name, `rows` not a list of names, or `seeds` not one of whole numbers.
    """
    if not isinstance(sweep, str):
        raise TypeError(f"table needs the name of a sweep, not {sweep!r}")
    for key, given in (("rows", rows), ("seeds", seeds)):
        if given is not None and (isinstance(given, str) or not isinstance(given, Collection)):
            raise TypeError(f"table needs a list of {key}: [{given!r}], not {given!r}")
    for key, given, kind, what in (("rows", rows, str, "names"), ("seeds", seeds, Integral, "whole numbers")):
        if wrong := [each for each in given or () if not isinstance(each, kind) or isinstance(each, bool)]:
            raise TypeError(f"table needs {what} in {key}, not {', '.join(map(repr, wrong))}")
    from variations.commands.stored import SweepKeys
    from variations.configuration.compose import loader
    from variations.configuration.schema import SweepConfig
    from variations.configuration.suggestions import options
    from variations.configuration.sweep_file import compose_sweep
    from variations.tables.chance import SignificanceConfig
    from variations.tables.footnotes import notes_of
    from variations.tables.table import build, document

    known = sweep in options(loader(), "sweep")
    config = compose_sweep(sweep) if known else SweepConfig(name=sweep)
    keys = SweepKeys(config, str(runs), rows if rows is None else list(rows), seeds if seeds is None else list(seeds))
    built = build(keys.definition().with_bases(), keys.store, SignificanceConfig(show=False))
    found = document(built)
    return [
        {"sweep": sweep}
        | {key: row[key] for key in ("row", "label", "group", "base", "parameters")}
        | {key: run[key] for key in ("seed", "state", "folder")}
        | {measure["key"]: run["scores"].get(measure["key"]) for measure in found["measures"]}
        | {f"published {key}": figure["value"] for key, figure in row["published"].items()}
        | {"notes": "; ".join(notes)}
        for row, notes in zip(found["rows"], notes_of(built), strict=True)
        for run in row["seeds"]
    ]
