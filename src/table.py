"""Print a sweep's table, published figures beside measured ones: `python src/table.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("table")
