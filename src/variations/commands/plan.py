"""The verb `plan`: what a launch would train, before anything is spent."""

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variations.commands.cli import command
from variations.config import RunConfig, choice, number
from variations.errors import ConfigError

if TYPE_CHECKING:
    from variations.planning.price import Bill
    from variations.planning.rows import Planned

OWN_KEYS = ("format", "vocabulary", "measure", "devices", "limit", "fresh")
"""Keys that are the plan's, not the runs'."""


@dataclass
class PlanConfig(RunConfig):
    """Keys of `src/plan.py`: all of `src/train.py`'s, and its own."""

    format: str = choice("terminal", "terminal", "markdown", "csv", "json", "wandb")
    vocabulary: int | None = number(None, ge=4)
    """Count with so many sub-words; null: data.vocabulary of each row."""
    measure: bool | None = None
    """false: count only. null: measure what is named, and only count the list of both papers' rows."""
    devices: int | None = number(None, ge=1)
    """Runs at the same time, for the time of the whole; null: sweep.at_once, or one for each GPU here."""
    limit: float = number(10.0, gt=0)
    """Seconds of updates that each distinct shape is measured for; start and decoding come on top."""
    fresh: bool = False
    """Measure again what was measured before on this machine."""


def plan(config: PlanConfig) -> None:
    """Print what a launch would do and cost, without training: sizes, memory, time, disk, of what is not done yet.

    It takes the words of train.py and measures each distinct shape for some seconds on this machine (measure=false
    only counts). Without any words it lists every row of both papers and their sizes.

    Raises:
        ConfigError: The faults of all rows.
    """
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    extra = next((source.path for source in hydra.runtime.config_sources if source.provider == "command-line"), None)
    sys.stdout.write(render(list(hydra.overrides.task), config, extra))


def render(overrides: list[str], config: PlanConfig, extra_folder: str | None = None) -> str:
    """Return the plan of `overrides` in the wanted format.

    Raises:
        ConfigError: The faults of all rows.
    """
    if config.format == "wandb":
        from variations.planning.wandb_sweep import sweep_yaml

        return sweep_yaml([text for text in overrides if text.partition("=")[0] not in OWN_KEYS], extra_folder)
    from variations.planning.rows import plan_rows

    wanted = [text for text in overrides if text.partition("=")[0].lstrip("+") not in OWN_KEYS]
    rows = plan_rows(wanted, extra_folder)  # faults are reported before torch is loaded
    bill = _bill(rows, config, named=bool(wanted))
    from variations.planning.formats import FORMATS, line, markdown, terminal

    prices = bill.prices if bill else [None] * len(rows)
    lines = [line(row, config.vocabulary, price) for row, price in zip(rows, prices, strict=True)]
    if config.format == "markdown":
        return markdown(lines, bill, command=shlex.join(["python", "src/plan.py", *overrides]))
    if config.format == "terminal" and sys.stdout.isatty():
        import shutil

        return terminal(lines, bill, width=shutil.get_terminal_size().columns)
    return FORMATS[config.format](lines, bill)


def _bill(rows: list["Planned"], config: PlanConfig, *, named: bool) -> "Bill | None":
    """Measure, if that is wanted and possible here."""
    if not (named if config.measure is None else config.measure):
        return None
    from variations.configuration import surroundings

    configs = [row.config for row in rows if row.config is not None and row.trainable]
    missing = list(dict.fromkeys(text for found in configs for text in surroundings.faults(found)))
    if missing and config.measure:
        raise ConfigError(missing)
    if missing or not configs:
        for text in missing:
            print(f"Only counted, as nothing can be measured: {text}", file=sys.stderr)
        return None
    from variations.planning.price import bill

    return bill(rows, config.devices, config.limit, fresh=config.fresh)


main = command(
    plan,
    schema=PlanConfig,
    config_name="plan",
    examples={
        "": "every row of both papers, counted",
        "sweep=quickstart": "one table: sizes, time, memory, disk, of what is left",
        "sweep=attention_table3 measure=false": "counted only",
        "sweep=attention_table3 recipe=multi30k data=multi30k": "",
        "model=weighted size=big": "one run",
        "sweep=weighted_table2 format=json": "one JSON document (also csv, markdown)",
    },
)
