"""Print what a launch would train, before anything is spent: `python src/plan.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("plan")
