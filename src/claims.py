"""Judge what the papers claim by the recorded runs: `python src/claims.py --help`."""

from variations.commands.claims import ClaimsConfig, show
from variations.commands.cli import command

main = command(
    show,
    schema=ClaimsConfig,
    config_name="claims",
    examples=[
        "python src/claims.py                                  on the terminal, from records/",
        "python src/claims.py out=docs/claims.md               the page of the documentation",
        "python src/claims.py runs=runs                        from runs of one's own",
    ],
)

if __name__ == "__main__":
    main()
