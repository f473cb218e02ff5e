"""Draw figures of stored runs, and attention maps: `python src/figures.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("figures")
