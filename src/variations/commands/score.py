"""What `score.py` does: have a task score files or what a run has stored, and print it."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from variations.commands.cli import command
from variations.configuration.schema import choice
from variations.configuration.tasks import DEFAULT, named
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tables.collect import unfit
from variations.tasks.scored import ToScore, of_run


@dataclass
class ScoreConfig(ToScore):
    """Keys of `score.py`."""

    format: str = choice("terminal", "terminal", "json")
    """`json`: one JSON document on standard output and nothing else."""


def score(config: ScoreConfig) -> None:
    """Print every score of stored hypotheses, each with its convention.

    The ladder: sacreBLEU with its signature, tokenised and compound-split BLEU, chrF, GLEU, exact match, and a run's
    own perplexity. Text is detokenised, one sentence per line. Faulty keys or files are named, with exit code 2.
    With task=parsing: EVALB's report on bracketed trees, one per line.
    """
    own = of_run(config, "task")
    if config.kind and own and config.kind != own:
        raise UserError(f"{config.run} is a run of task={own}: leave task={config.kind} out.")
    found = named(config.kind or own or DEFAULT).score(config)
    if config.run is not None and (fault := unfit(RunFolder(Path(config.run).expanduser()))):
        print(
            f"warning: {config.run} is damaged ({fault}): what is read from result.json, such as the perplexity, or "
            "the stored texts, from which the other scores are computed, may be wrong.",
            file=sys.stderr,
        )
    if config.format == "json":
        print(json.dumps(found.document, ensure_ascii=False, indent=2))
    else:
        found.show()


main = command(
    score,
    schema=ScoreConfig,
    config_name="score",
    aliases={"task": "kind"},
    examples={
        "run=runs/quickstart/transformer/seed1": "the test set of a run",
        "run=runs/quickstart/transformer/seed1 set=dev": "another of its sets",
        "hyp=out.txt ref=test.de src=test.en": "files, one sentence per line",
        "hyp=out.txt ref=test.fr lang=fr format=json": "one JSON document",
        "task=parsing hyp=parsed.txt ref=gold.txt": "trees, scored as EVALB does",
    },
)
