"""Measure Table 1 of Vaswani et al. 2017 on this machine: `python src/complexity.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("complexity")
