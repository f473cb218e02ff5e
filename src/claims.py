"""Judge what the papers claim by the recorded runs: `python src/claims.py --help`."""

from variations.commands.claims import main

if __name__ == "__main__":
    main()
