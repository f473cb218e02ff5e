"""Compare runs in the browser: `python src/dashboard.py --help`."""

from variations.commands.dashboard import main

if __name__ == "__main__":
    main()
