"""Draw figures of stored runs, and attention maps: `python src/figures.py --help`."""

from variations.commands.figures import main

if __name__ == "__main__":
    main()
