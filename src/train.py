"""Train, test and score one run, or a whole sweep: `python src/train.py --help`."""

from variations.commands.train import main

if __name__ == "__main__":
    main()
