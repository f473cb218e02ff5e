"""Scoring files of trees: EVALB's own report, or the same figures as one JSON document."""

from pathlib import Path
from typing import Any

from variations.data.text import read_text
from variations.system.errors import DataError, UserError
from variations.tasks.parsing.evalb import ERROR, Sentence, Summary, report, score_lines
from variations.tasks.parsing.parameters import COLLINS, Parameters, read_parameters
from variations.tasks.scored import Scored, ToScore, files


def scored(asked: ToScore) -> Scored:
    """EVALB's report on the chosen trees, or its summary.

    Raises UserError as `score_files` does, and for keys of task=translation.
    """
    given = {"lang": asked.lang, "src": asked.src if asked.run is None else None}
    if unread := [f"{key}={value}" for key, value in given.items() if value is not None]:
        raise UserError(f"{' and '.join(unread)}: task=parsing scores trees without them: leave them out.")
    paths = files(asked)
    parameters = None if asked.prm is None else Path(asked.prm).expanduser()
    found = score_files(paths["hypothesis"], paths["reference"], parameters)
    return Scored(document(*found), lambda: print(report(*found), end=""))


def score_files(
    hypotheses: Path, references: Path, parameters: Path | None = None
) -> tuple[list[Sentence], Parameters]:
    """EVALB's counts of a file of trees, one per line, against the gold file; COLLINS.prm without a parameter file.

    Raises DataError for files that cannot be read, are empty, or do not correspond.
    """
    chosen = COLLINS if parameters is None else read_parameters(parameters)
    gold, test = (_lines(path) for path in (references, hypotheses))
    if not gold:
        raise DataError(f"{references} is empty: it must contain the gold trees, one per line.")
    return score_lines(gold, test, chosen), chosen


def document(sentences: list[Sentence], parameters: Parameters) -> dict[str, Any]:
    """Summaries of all sentences and of short ones, and the reasons of errors, for `format=json`."""
    short = [each for each in sentences if each.length <= parameters.cutoff]
    return {
        "schema": 1,
        "scores": {"all": _figures(sentences), f"length<={parameters.cutoff}": _figures(short)},
        "errors": [
            {"line": number, "fault": each.fault} for number, each in enumerate(sentences, 1) if each.status == ERROR
        ],
    }


def _figures(sentences: list[Sentence]) -> dict[str, float | int | None]:
    summary = Summary.of(sentences)
    scored = summary.valid > 0 and summary.gold > 0 and summary.test > 0
    return {
        "sentences": summary.sentences,
        "errors": summary.errors,
        "skipped": summary.skipped,
        "f1": summary.f1 if summary.matched else 0.0 if scored else None,
        "recall": summary.recall,
        "precision": summary.precision,
        "exact": 100 * summary.complete / summary.valid if summary.valid else None,
        "crossing": summary.crossing / summary.valid if summary.valid else None,
        "tags": 100 * summary.tags / summary.words if summary.words else None,
    }


def _lines(path: Path) -> list[str]:
    text = read_text(path.expanduser())
    return text.removesuffix("\n").split("\n") if text else []
