"""Print what a launch would train, before anything is spent: `python src/plan.py --help`."""

from variations.commands.plan import main

if __name__ == "__main__":
    main()
