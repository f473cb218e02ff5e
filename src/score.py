"""Score stored hypotheses: `python src/score.py --help`."""

from variations.commands.score import main

if __name__ == "__main__":
    main()
