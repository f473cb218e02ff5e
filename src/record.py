"""Copy a sweep's finished runs to records/, without checkpoints: `python src/record.py --help`."""

from variations.commands.record import main

if __name__ == "__main__":
    main()
