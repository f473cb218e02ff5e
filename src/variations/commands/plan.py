"""The verb `plan`: what a launch would train and cost, without training."""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variations.commands.cli import command, typed
from variations.commands.launchers import cores_of_job
from variations.configuration.compose import loader
from variations.configuration.overrides import is_axis
from variations.configuration.places import spelled
from variations.configuration.schema import RunConfig, choice, number
from variations.system.errors import ConfigError

if TYPE_CHECKING:
    from variations.planning.price import Bill, Price
    from variations.planning.rows import Planned

OWN_KEYS = ("format", "vocabulary", "measure", "devices", "limit", "fresh")
"""Keys of the plan itself, not of the runs."""


@dataclass
class PlanConfig(RunConfig):
    """Keys of `src/plan.py`: those of `src/train.py`, and its own."""

    format: str = choice("terminal", "terminal", "markdown", "csv", "json", "wandb")
    vocabulary: int | None = number(None, ge=4)
    """Count with a vocabulary of this size; null: data.vocabulary of each row."""
    measure: bool | None = None
    """false: only count. null: measure the named rows; the list of all rows of both papers is only counted."""
    devices: int | None = number(None, ge=1)
    """Runs at the same time, for the total time; null: sweep.at_once, and at most as many as fit the GPUs here."""
    limit: float = number(10.0, gt=0)
    """Seconds of updates that are measured for each distinct shape; start and decoding take additional time."""
    fresh: bool = False
    """Repeat measurements that were made before on this machine."""


def plan(config: PlanConfig) -> None:
    """Print what a launch would do and cost, without training: sizes, memory, time and disk space of unfinished runs.

    It takes the overrides of train.py, and measures each distinct shape for some seconds on this machine (measure=false
    only counts). Without overrides it lists every row of both papers with its size.

    Raises:
        ConfigError: The faults of all rows.
    """
    sys.stdout.write(render(typed(), config))


def render(overrides: list[str], config: PlanConfig) -> str:
    """Return the plan for `overrides` in the chosen format.

    Args:
        overrides: As typed; keys may have several values.
        config: The plan's own keys.

    Raises:
        ConfigError: The faults of all rows.
    """
    keys = {text: text.partition("=")[0].lstrip("+") for text in overrides}
    if found := [text for text, key in keys.items() if key in OWN_KEYS and is_axis(text, loader())]:
        raise ConfigError([f"{text}: keys of the plan itself take one value." for text in found])
    wanted = [text for text, key in keys.items() if key not in OWN_KEYS]
    if config.format == "wandb":
        from variations.searching.wandb_sweep import sweep_yaml

        return sweep_yaml(wanted)
    from variations.planning.rows import plan_rows

    rows = plan_rows(wanted)  # faults are reported before torch is loaded
    data = [getattr(row.config, "data", None) for row in rows if row.config is not None]
    if config.vocabulary is not None and not any(hasattr(each, "vocabulary") for each in data):
        raise ConfigError([f"vocabulary={config.vocabulary}: no task of these rows has data.vocabulary: leave it out."])
    bill = _bill(rows, config, cores_of_job(overrides, "plan"), named=bool(wanted))
    from variations.planning.formats import FORMATS, line, markdown, terminal

    prices = bill.prices if bill else [None] * len(rows)
    lines = [line(row, config.vocabulary, price) for row, price in _counting(list(zip(rows, prices, strict=True)))]
    if config.format == "markdown":
        return markdown(lines, bill, command=shlex.join([*spelled("plan").split(), *overrides]))
    if config.format != "terminal":
        return FORMATS[config.format](lines, bill)
    import shutil

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return f"{_heading(wanted, rows)}{terminal(lines, bill, width=width)}"


def _heading(overrides: list[str], rows: list["Planned"]) -> str:
    """The name of the sweep, above tables that are named after the folders of its rows; empty if they are the same."""
    names = {row.config.sweep.name for row in rows if row.config is not None}
    swept = any(text.startswith("sweep=") for text in overrides) and len(names) == 1
    return f"Sweep {names.pop()}\n\n" if swept and names != {row.table for row in rows} else ""


def _counting(priced: list[tuple["Planned", "Price | None"]]) -> "Iterable[tuple[Planned, Price | None]]":
    """The same items, with a bar on the terminal: a large network takes seconds to count."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(priced, "Counting", console=console, transient=True, disable=not console.is_terminal)


def _bill(rows: list["Planned"], config: PlanConfig, job: tuple[float, bool] | None, *, named: bool) -> "Bill | None":
    """Measure, if that is asked for and possible here, each run with the cores of its `job`, see `cores_of_job`.

    Raises:
        ConfigError: No row can be measured, and not for want of memory.
    """
    if not (named if config.measure is None else config.measure):
        return None
    from variations.configuration import surroundings

    configs = [row.config for row in rows if row.config is not None]
    missing = list(dict.fromkeys(text for found in configs for text in surroundings.faults(found)))
    if missing and config.measure:
        raise ConfigError(missing)
    if missing or not configs:
        for text in missing:
            print(f"Only counted, because nothing can be measured: {text}", file=sys.stderr)
        return None
    from variations.planning.price import bill

    launched = [row for row in rows if row.launches]
    runs, left = sum(len(row.launches) for row in launched), sum(len(row.left) for row in launched)
    if runs:
        told = f"{_plural(len(launched), 'row')}, {left:,} of {_plural(runs, 'run')} left."
        print(told, file=sys.stderr, flush=True)
    found = bill(rows, config.devices, config.limit, job, fresh=config.fresh)
    known = [price for price in found.prices if price.cost or price.exhausted]
    if not known and (faults := dict.fromkeys(price.fault for price in found.prices if price.fault)):
        raise ConfigError(list(faults))
    return found


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


main = command(
    plan,
    schema=PlanConfig,
    config_name="plan",
    axes=True,
    examples={
        "": "every row of both papers, counted",
        "sweep=quickstart": "one table: sizes, time, memory and disk space of what is left",
        "sweep=attention_table3 measure=false": "counted only",
        "sweep=attention_table3 recipe=multi30k data=multi30k": "",
        "sweep=quickstart model.dropout=0.1,0.2": "a table crossed with values of another key",
        "model=weighted size=big": "one run",
        "task=question_answering model=dmn": "",
        "sweep=weighted_table2 format=json": "one JSON document (also csv, markdown)",
    },
)
