"""Make a sweep of one's own, with rows to fill in: `python src/new.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("new")
