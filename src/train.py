"""Train, test and score one run, or a whole sweep: `python src/train.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("train")
