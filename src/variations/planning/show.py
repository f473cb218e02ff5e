"""The verb `plan`: what a launch would train, before anything is spent."""

import shlex
import sys
from dataclasses import dataclass

from variations.config import Config, choice, number
from variations.errors import UserError

OWN_KEYS = ("format", "vocabulary", "measure")
"""Keys that are the plan's, not the runs'."""


@dataclass
class PlanConfig(Config):
    """Keys of `src/plan.py`: all of `src/train.py`'s, and its own."""

    format: str = choice("terminal", "terminal", "markdown", "csv", "json")
    vocabulary: int | None = number(None, ge=4)
    """Count with so many sub-words; null: data.vocabulary of each row."""
    measure: bool = False
    """Only false, counting, is possible; nothing is timed on this machine."""


def plan(config: PlanConfig) -> None:
    """Print each row's changes, parameters (ours and the printed count), steps and training FLOPs, without training.

    It takes the words of train.py. Without any it lists every row of both papers.

    Raises:
        ConfigError: The faults of all rows.
        UserError: measure=true.
    """
    from hydra.core.hydra_config import HydraConfig

    if config.measure:
        raise UserError("measure=true is not possible: plan.py counts and does not time; leave it out.")
    hydra = HydraConfig.get()
    extra = next((source.path for source in hydra.runtime.config_sources if source.provider == "command-line"), None)
    sys.stdout.write(render(list(hydra.overrides.task), config, extra))


def render(overrides: list[str], config: PlanConfig, extra_folder: str | None = None) -> str:
    """Return the plan of `overrides` in the wanted format.

    Raises:
        ConfigError: The faults of all rows.
    """
    from variations.planning.rows import plan_rows

    wanted = [text for text in overrides if text.partition("=")[0].lstrip("+") not in OWN_KEYS]
    rows = plan_rows(wanted, extra_folder)  # faults are told before torch is loaded
    from variations.planning.formats import FORMATS, markdown, terminal
    from variations.planning.lines import line

    lines = [line(row, config.vocabulary) for row in rows]
    if config.format == "markdown":
        return markdown(lines, shlex.join(["python", "src/plan.py", *overrides]))
    if config.format == "terminal" and sys.stdout.isatty():
        import shutil

        return terminal(lines, width=shutil.get_terminal_size().columns, colour=True)
    return FORMATS[config.format](lines)
