"""Judge what the papers claim by the recorded runs: `python src/claims.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("claims")
