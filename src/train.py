"""Train, test and score one run, or a whole sweep: `python src/train.py --help`."""

from pathlib import Path

from variations.commands.cli import command
from variations.config import RunConfig


def train(config: RunConfig) -> Path:
    """Train a model, translate the test set with it, and score it.

    The last line printed is the run's folder. The same line again continues an interrupted run and leaves a finished
    one alone.
    """
    from variations.run import execute

    folder: Path = execute(config)
    return folder


main = command(
    train,
    schema=RunConfig,
    config_name="train",
    multirun=True,
    examples=[
        "python src/train.py                                           a tiny Transformer on built-in data",
        "python src/train.py model=weighted size=big                   another model, another size",
        "python src/train.py variation=quickstart/weighted seed=2      one row of a table",
        "python src/train.py --multirun sweep=quickstart               a whole table",
        "python src/train.py --multirun sweep=quickstart rows=[uniform] seeds=[1,2]",
        "python src/train.py --multirun model=transformer,weighted size=tiny,small",
        "python src/train.py model=weighted debug=limit                the whole path in twenty steps",
    ],
)

if __name__ == "__main__":
    main()
