"""The verb `train`: one run, or a whole sweep."""

from pathlib import Path

from variations.commands.cli import command
from variations.configuration.schema import RunConfig


def train(config: RunConfig) -> Path:
    """Train a model, translate the test set with it, and score it.

    The last line printed is the run's folder. The same command continues an interrupted run and leaves a finished
    one alone.
    """
    from variations.commands.run import execute

    folder: Path = execute(config)
    return folder


main = command(
    train,
    schema=RunConfig,
    config_name="train",
    multirun=True,
    examples={
        "": "a tiny Transformer on built-in data",
        "model=weighted size=big": "another model, another size",
        "variation=quickstart/weighted seed=2": "one row of a table",
        "--multirun sweep=quickstart": "a whole table",
        "--multirun sweep=quickstart 'rows=[uniform]' 'seeds=[1,2]'": "",
        "--multirun model=transformer,weighted size=tiny,small": "",
        "model=weighted debug=limit": "a complete run in twenty steps",
    },
)
