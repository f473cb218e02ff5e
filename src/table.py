"""Print a sweep's table, published figures beside measured ones: `python src/table.py --help`."""

from variations.commands.cli import command
from variations.commands.table import TableConfig, show

main = command(
    show,
    schema=TableConfig,
    config_name="table",
    examples=[
        "python src/table.py sweep=quickstart                            on the terminal",
        "python src/table.py sweep=quickstart format=html                a report with curves and translations",
        "python src/table.py sweep=quickstart format=latex out=table.tex",
        "python src/table.py sweep=quickstart format=json                one JSON document",
        "python src/table.py sweep=quickstart diff=[transformer,uniform] what one row changes in another",
        "python src/table.py sweep=quickstart significance.n=10000       finer p-values; significance.show=false: none",
    ],
)

if __name__ == "__main__":
    main()
