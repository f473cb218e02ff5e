"""Print a sweep's table, published figures beside measured ones: `python src/table.py --help`."""

from variations.commands.table import main

if __name__ == "__main__":
    main()
