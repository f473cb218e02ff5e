"""Save a workspace and a report of a sweep in Weights & Biases: `python src/wandb_report.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("wandb_report")
