"""The verb `claims`: verdicts on what the papers claim, from the records."""

from dataclasses import dataclass

from variations.commands.cli import command
from variations.commands.stored import existing_root, put
from variations.configuration.places import respelled
from variations.store.atomic import refuse_unwritable
from variations.tables.claims.claim import read_papers
from variations.tables.claims.evidence import Evidence
from variations.tables.claims.page import page


@dataclass
class ClaimsConfig:
    """Keys of `src/claims.py`."""

    runs: str = "records"
    """Folder of records, or root of a run store."""
    out: str | None = None
    """File to write; null: standard output."""


def show(config: ClaimsConfig) -> None:
    """Judge every claim of the papers by the stored runs, and print the verdicts as a page.

    The claims are in conf/claims/, one file for each paper; a folder of yours (hydra.searchpath) may have others.

    Raises:
        ConfigError: A claim file is wrong.
        UserError: The file cannot be written, or `runs` is missing or cannot be read.
    """
    refuse_unwritable(out=config.out)
    records = existing_root(config.runs, "a folder of records, or a run store")
    text = respelled(page(read_papers(), Evidence(records)))
    put(text, config.out)


main = command(
    show,
    schema=ClaimsConfig,
    config_name="claims",
    examples={
        "": "on the terminal, from records/",
        "out=docs/claims.md": "the page of the documentation",
        "runs=runs": "from your own runs",
    },
)
