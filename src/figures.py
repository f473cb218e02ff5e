"""Draw figures of stored runs, and attention maps: `python src/figures.py --help`."""

from variations.commands.cli import command
from variations.commands.figures import FiguresConfig, draw

main = command(
    draw,
    schema=FiguresConfig,
    config_name="figures",
    examples=[
        "python src/figures.py sweep=quickstart                                all figures of a table",
        "python src/figures.py sweep=quickstart figure=branch_weights layer=2 format=png out=DIR",
        "python src/figures.py run=RUN figure=attention sentence='the cat sleeps' layer=2",
        "python src/figures.py run=RUN figure=attention line=7 layer=5 heads=[5,6] words=[its] part=encoder",
    ],
)

if __name__ == "__main__":
    main()
