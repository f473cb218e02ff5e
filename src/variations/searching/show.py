"""The output of a search while it runs and at its end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from variations.configuration.places import SEED_FOLDER
from variations.configuration.tasks import task_of
from variations.searching.definition import TRIAL, Definition
from variations.searching.objectives import COSTS
from variations.searching.space import word
from variations.searching.study import REASON, Study
from variations.store.departures import of_run
from variations.store.ledger import RunFolder, latest
from variations.sweeping.outcomes import Outcome
from variations.sweeping.overview import Overview, printer, table_line
from variations.system.errors import UserError
from variations.system.rounding import decimal
from variations.tasks.base import TestedRun

ENOUGH = 10
"""Number of finished trials from which on the importance of keys is estimated."""
SHOWN = 5
"""Largest number of trials in the summary, best first."""


class Show(Overview):
    """Shows the progress of a search on standard error."""

    def __init__(self, definition: Definition, console: Console | None = None) -> None:
        super().__init__(console)
        self.definition = definition
        self.best: float | None = None

    def begins(self, study: Study) -> None:
        """Start from the best value found before."""
        complete = [trial for trial in study.trials() if trial.state.name == "COMPLETE"]
        if complete and len(study.objectives) == 1:
            self.best = float(_ranked(study, complete)[0].value)

    def started(self, outcomes: Sequence[Outcome], outcome: Outcome) -> None:
        """Reported by `began`."""

    def ended(self, outcomes: Sequence[Outcome], outcome: Outcome) -> None:
        """Reported by `closed`."""

    def began(self, number: int, values: Mapping[str, Any]) -> None:
        """A trial has started."""
        self.say(f"[{number + 1}/{self.definition.total}] {TRIAL}{number}: {_values(values)}")

    def closed(
        self, number: int, values: Mapping[str, Any], state: str, found: Sequence[float] | None, reason: str
    ) -> None:
        """A trial has ended."""
        keys = [objective.key for objective in self.definition.objectives]
        told = ", ".join(f"{key} {figure(value)}" for key, value in zip(keys, found or [], strict=False))
        text = ": ".join(part for part in (state, told or reason) if part)
        self.say(f"[{number + 1}/{self.definition.total}] {TRIAL}{number} {text}{self._record(found)}")

    def _record(self, found: Sequence[float] | None) -> str:
        if found is None or len(found) != 1:
            return ""
        better = max if self.definition.objectives[0].direction == "maximize" else min
        if self.best is not None and better(self.best, found[0]) == self.best:
            return f" (best {figure(self.best)})"
        self.best = found[0]
        return " (best so far)"


def summary(study: Study) -> None:
    """Print the best trials or the Pareto front, the importance of keys, failures, and where everything is stored."""
    console = printer()
    trials = study.trials()
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    if complete:
        front = study.optuna.best_trials if len(study.objectives) > 1 else _ranked(study, complete)[:SHOWN]
        console.print(_table(study, front))
        for trial in front:
            for text in _departures(study, trial.number):
                console.print(f"{TRIAL}{trial.number}: {escape(text)}", soft_wrap=True)
    counts = Counter(trial.state.name for trial in trials)
    names = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "open", "WAITING": "waiting"}
    told = ", ".join(f"{counts[state]} {text}" for state, text in names.items() if counts[state])
    begun, total = study.begun(), study.definition.total
    of_all = f"{begun} of {total} trials" if begun <= total else f"{begun} trials, more than the {total} requested"
    console.print(f"{told or 'no trials'}; {of_all}", soft_wrap=True)
    for trial in trials:
        if trial.state.name == "FAIL":
            reason = trial.user_attrs.get(REASON, "reason unknown")
            console.print(f"[red]failed[/] {TRIAL}{trial.number}: {escape(reason)}", soft_wrap=True)
    if text := _importance(study, complete):
        console.print(escape(text), soft_wrap=True)
    home = study.definition.home
    away = [str(trial.number) for trial in complete if not (home / f"{TRIAL}{trial.number}").is_dir()]
    told = f", without the runs of {', '.join(away)}, which another folder has or which were deleted" if away else ""
    console.print(f"Trials: {escape(str(home))}{told}", soft_wrap=True)
    if complete:
        console.print(f"Table: {_table_command(study)}", soft_wrap=True, markup=False)
    console.print(f"In the browser: optuna-dashboard {escape(study.definition.storage)}", soft_wrap=True)
    if begun < total:
        console.print("Run the same command again to continue the search.")
    elif counts["RUNNING"]:
        console.print("Run the same command again to continue open trials whose process has ended.")


def _departures(study: Study, number: int) -> list[str]:
    """Why a trial's values are not those of a whole training, or are of networks that are not trained."""
    found: dict[str, None] = {}
    tested = []
    for folder in runs_of(study.definition.home / f"{TRIAL}{number}"):
        try:
            config, result = folder.config(), folder.result()
        except UserError as error:
            found[str(error)] = None
            continue
        if result:
            found |= dict.fromkeys(of_run(config, result))
            tested.append(TestedRun(folder, config, result))
    if tested and (untrained := task_of(tested[0].config).untrained(tested)):
        found[f"not trained: {untrained}"] = None
    return [*found]


def runs_of(home: Path) -> list[RunFolder]:
    """The runs of a trial, of each seed the attempt to read. Other files beside them are passed over."""
    seeds = {RunFolder(path).seed for path in home.glob("seed*") if SEED_FOLDER.fullmatch(path.name)}
    places = [home / f"seed{seed}" for seed in sorted(seeds)]
    return [latest(place) or RunFolder(place) for place in places]


def _table_command(study: Study) -> str:
    """The command that prints all trials, compared by the first metric that a table can compare."""
    metrics = [objective.key for objective in study.objectives if objective.key not in COSTS][:1]
    words = [f"sweep.name={study.definition.name}", *(f"sweep.metric={key}" for key in metrics)]
    return table_line(words, study.definition.base.runs)


def _ranked(study: Study, complete: list[Any]) -> list[Any]:
    down = study.objectives[0].direction == "maximize"
    return sorted(complete, key=lambda trial: (-trial.value if down else trial.value, trial.number))


def _table(study: Study, trials: Sequence[Any]) -> Table:
    several = len(study.objectives) > 1
    title = "Pareto front: no other trial is better in every metric" if several else "Best trials"
    table = Table(title=title, title_justify="left")
    for name in ("trial", *(o.measure.label for o in study.objectives), *(d.key for d in study.definition.dimensions)):
        table.add_column(name)
    for trial in sorted(trials, key=lambda t: t.values[-1]) if several else trials:
        mark = " (baseline)" if trial.user_attrs.get("baseline") else ""
        values = [escape(word(short(trial.params[d.key]))) for d in study.definition.dimensions]
        table.add_row(f"{trial.number}{mark}", *(figure(value) for value in trial.values), *values)
    return table


def _importance(study: Study, complete: list[Any]) -> str:
    if len(complete) < ENOUGH or len(study.objectives) > 1 or len(study.definition.dimensions) < 2:
        return ""
    if len({trial.value for trial in complete}) == 1:
        return ""
    import optuna

    try:
        found = optuna.importance.get_param_importances(
            study.optuna, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    except (ValueError, RuntimeError):  # the trials have the same values of all keys
        return ""
    return "Importance of keys (PED-ANOVA): " + ", ".join(f"{key} {share:.0%}" for key, share in found.items())


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={word(short(value))}" for key, value in values.items())


def short(value: Any) -> Any:
    """A float with four digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def figure(value: float) -> str:
    """A score with two decimals, a smaller one with three figures, a count in full, as far as it can be one."""
    if abs(value) >= 1e18:  # a perplexity or error that has diverged, or FLOPs
        return f"{value:.3g}"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return decimal(value, 2) if abs(value) >= 1 or not value else f"{value:.3g}"
