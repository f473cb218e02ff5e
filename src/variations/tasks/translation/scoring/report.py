"""The report of `score.py` on translations: every score of the ladder, each with its convention."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.system.rounding import decimal
from variations.tasks.scored import Scored, ToScore, files, of_run
from variations.tasks.translation.data.textfiles import read_lines
from variations.tasks.translation.scoring.bleu import Score, as_dict, moses_languages
from variations.tasks.translation.scoring.ladder import remarks, score_all

DEFAULT_LANGUAGE = "de"


@dataclass(frozen=True)
class Texts:
    """What is scored: files and their lines, and the target language."""

    files: dict[str, Path]
    hypotheses: list[str]
    references: list[str]
    source: list[str] | None
    language: str


def scored(asked: ToScore) -> Scored:
    """Every score of the chosen texts, and a run's own perplexities. Raises UserError for keys of other tasks."""
    if asked.prm is not None:
        raise UserError(f"prm={asked.prm} is a parameter file of EVALB: add task=parsing, or leave it out.")
    texts = read_texts(asked)
    scores = score_all(texts.hypotheses, texts.references, texts.language)
    if asked.run is not None:
        scores += stored_perplexities(Path(asked.run), asked.set)
    notes = remarks(texts.hypotheses, texts.references) + copied(texts) + unlisted(texts.language)
    if asked.run is not None:
        notes += stored_cuts(Path(asked.run), asked.set)
    return Scored(document(texts, scores, notes), lambda: show(texts, scores, notes))


def read_texts(asked: ToScore) -> Texts:
    """Find and read the files that `asked` names. Raises DataError if their lengths differ."""
    paths = files(asked)
    if asked.lang is not None and not re.fullmatch("[a-z]{2,3}", asked.lang):
        raise UserError(f"lang={asked.lang} is not a language code: give two or three small letters, such as lang=de.")
    lines = {what: read_lines(path) for what, path in paths.items()}
    for what, others in lines.items():
        if len(others) != len(lines["reference"]):
            raise DataError(
                f"The {what} file {paths[what]} has {len(others)} lines but the reference file {paths['reference']} "
                f"has {len(lines['reference'])}: line n of one must belong to line n of the other."
            )
    language = asked.lang or (of_run(asked, "data.target") if asked.run else _file_language(paths["reference"]))
    return Texts(paths, lines["hypothesis"], lines["reference"], lines.get("source"), language or DEFAULT_LANGUAGE)


def _file_language(path: Path) -> str | None:
    """The language that a file name ends in, as in `test.de` or `test.de.gz`."""
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    return ending if re.fullmatch("[a-z]{2}", ending) and "." in path.name else None


def stored_perplexities(run: Path, name: str) -> list[Score]:
    """Perplexities of the set `name` that the run itself measured (`loss` in its result.json)."""
    loss = (RunFolder(run.expanduser()).result() or {}).get("loss") or {}
    sentences = {
        "ppl": "Perplexity per target sub-word, end of sentence included, from the loss without label smoothing.",
        "ppl_per_word": "Perplexity per target word, from the loss without label smoothing.",
    }
    found = {key: loss.get(f"{name}_{key}") for key in sentences}
    return [Score(key, float(value), sentences[key]) for key, value in found.items() if value is not None]


def stored_cuts(run: Path, name: str) -> list[str]:
    """The messages of the run's test about over-long sentences of the set `name`."""
    return list(((RunFolder(run.expanduser()).result() or {}).get("cut") or {}).get(name, []))


def copied(texts: Texts) -> list[str]:
    """A remark if hypotheses repeat their source sentence unchanged."""
    if texts.source is None:
        return []
    pairs = zip(texts.hypotheses, texts.source, strict=True)
    count = sum(ours.strip() == theirs.strip() != "" for ours, theirs in pairs)
    return [f"{count} of {len(texts.hypotheses)} hypotheses repeat their source unchanged."] if count else []


def unlisted(language: str) -> list[str]:
    """A remark if Moses has no rules for the language, which may be mistyped."""
    known = moses_languages()
    if language in known:
        return []
    return [
        f"Moses has no list of abbreviations for {language!r}, so tokenised scores use the English one; "
        f"it has lists for {', '.join(known)}."
    ]


def document(texts: Texts, scores: list[Score], notes: list[str]) -> dict[str, Any]:
    """The one JSON document of `format=json`."""
    return {
        "schema": 1,
        "files": {what: str(path) for what, path in texts.files.items()},
        "language": texts.language,
        "lines": len(texts.references),
        "empty_hypotheses": sum(not line.strip() for line in texts.hypotheses),
        "notes": notes,
        "scores": as_dict(scores),
    }


def show(texts: Texts, scores: list[Score], notes: list[str]) -> None:
    """The ladder as a table on standard output, each score with its convention."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    table = Table(title=None, box=None, pad_edge=False)
    table.add_column("score", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("convention", overflow="fold")  # a signature is never cut
    for item in scores:
        meaning = Text(item.convention)
        if item.signature:
            meaning.append(f"\n{item.signature}", style="dim")
        table.add_row(item.name, decimal(item.value), meaning)
    console.print(f"{len(texts.references)} lines, target language {texts.language}", markup=False)
    console.print(table)
    for note in notes:
        console.print(f"Note: {note}", markup=False)
