"""Compare runs in the browser: `python src/dashboard.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("dashboard")
