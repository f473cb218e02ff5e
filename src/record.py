"""Copy a sweep's finished runs to records/, without checkpoints: `python src/record.py --help`."""

from variations.commands.console import start

if __name__ == "__main__":
    start("record")
