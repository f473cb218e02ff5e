"""Score stored hypotheses: `python src/score.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("score")
