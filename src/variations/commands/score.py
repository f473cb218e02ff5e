"""What `score.py` does: find the text, score it, show the ladder on the terminal or as JSON."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.commands.cli import command
from variations.configuration.schema import choice
from variations.store.identity import flatten
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.translation.data.textfiles import read_lines
from variations.tasks.translation.scoring.bleu import Score, as_dict, moses_languages
from variations.tasks.translation.scoring.ladder import remarks, score_all

DEFAULT_LANGUAGE = "de"


@dataclass
class ScoreConfig:
    """Keys of `score.py`: either `run` (and `set`), or `hyp` and `ref`."""

    kind: str | None = choice(None, "translation", "parsing")
    """What the files hold, also typed as task=NAME; null: what the run says, else translation."""
    run: str | None = None
    """Folder of a run."""
    set: str = "test"
    """Which of the run's stored sets: test, dev, …"""
    hyp: str | None = None
    """File of detokenised hypotheses, one a line (plain or .gz)."""
    ref: str | None = None
    """File of references, one a line."""
    src: str | None = None
    """File of source sentences; with it, lines copied from the source are counted."""
    lang: str | None = None
    """Target language, for tokenisation; null: the run's, or the reference file's ending, or de."""
    prm: str | None = None
    """`task=parsing`: a parameter file of EVALB; null: COLLINS.prm."""
    format: str = choice("terminal", "terminal", "json")
    """`json`: one JSON document on standard output and nothing else."""


@dataclass(frozen=True)
class Texts:
    """What is scored: files and their lines, and the target language."""

    files: dict[str, Path]
    hypotheses: list[str]
    references: list[str]
    source: list[str] | None
    language: str


def score(config: ScoreConfig) -> None:
    """Print every score of stored hypotheses, each with its convention.

    The ladder: sacreBLEU with its signature, tokenised and compound-split BLEU, chrF, GLEU, exact match, and a run's
    own perplexity. Text is detokenised, one sentence a line. Faulty keys or files are named, with exit code 2.
    With task=parsing: EVALB's report on bracketed trees, one a line.
    """
    if (config.kind or _of_run(config, "task")) == "parsing":
        score_trees(config)
        return
    texts = read_texts(config)
    scores = ladder(config, texts)
    notes = remarks(texts.hypotheses, texts.references) + copied(texts) + unlisted(texts.language)
    if config.format == "json":
        print(json.dumps(document(texts, scores, notes), ensure_ascii=False, indent=2))
    else:
        show(texts, scores, notes)


def score_trees(config: ScoreConfig) -> None:
    """Print EVALB's report, or its summary as one JSON document."""
    from variations.tasks.parsing import scoring

    files = _files(config)
    parameters = None if config.prm is None else Path(config.prm).expanduser()
    found = scoring.score_files(files["hypothesis"], files["reference"], parameters)
    if config.format == "json":
        print(json.dumps(scoring.document(*found), ensure_ascii=False, indent=2))
    else:
        print(scoring.shown(*found), end="")


def ladder(config: ScoreConfig, texts: Texts) -> list[Score]:
    """Every score of the texts, and a run's own perplexities."""
    scores = score_all(texts.hypotheses, texts.references, texts.language)
    return scores + (stored_perplexities(Path(config.run), config.set) if config.run is not None else [])


def read_texts(config: ScoreConfig) -> Texts:
    """Find and read the files that `config` means, all of equal length."""
    files = _files(config)
    if config.lang is not None and not re.fullmatch("[a-z]{2,3}", config.lang):
        raise UserError(f"lang={config.lang} is no language code: give two or three small letters, such as lang=de.")
    lines = {what: read_lines(path) for what, path in files.items()}
    for what, others in lines.items():
        if len(others) != len(lines["reference"]):
            raise DataError(
                f"The {what} file {files[what]} has {len(others)} lines but the reference file {files['reference']} "
                f"has {len(lines['reference'])}: line n of one must belong to line n of the other."
            )
    language = config.lang or (_of_run(config, "data.target") if config.run else _file_language(files["reference"]))
    return Texts(files, lines["hypothesis"], lines["reference"], lines.get("source"), language or DEFAULT_LANGUAGE)


def _files(config: ScoreConfig) -> dict[str, Path]:
    """Paths by what they hold: hypothesis, reference and, where there is one, source."""
    plain = {"hyp": config.hyp, "ref": config.ref, "src": config.src}
    if config.run is None:
        if config.hyp is None or config.ref is None:
            missing = " and ".join(f"{key}=FILE" for key in ("hyp", "ref") if plain[key] is None)
            raise UserError(f"Nothing to score: give run=FOLDER, or hyp=FILE ref=FILE (missing: {missing}).")
        if config.set != "test":
            raise UserError(
                f"set={config.set} is a set of a run: leave it out with hyp=FILE ref=FILE, or give run=FOLDER."
            )
        named = {"hypothesis": config.hyp, "reference": config.ref, "source": config.src}
        return {what: Path(name).expanduser() for what, name in named.items() if name is not None}
    if given := [key for key, value in plain.items() if value is not None]:
        raise UserError(f"Give either run=FOLDER or files, not both: leave out {', '.join(given)} or run.")
    folder = Path(config.run).expanduser() / "hypotheses"
    paths = {"hypothesis": ".hyp", "reference": ".ref", "source": ".src"}
    found = {what: folder / f"{config.set}{ending}" for what, ending in paths.items()}
    if not found["hypothesis"].is_file():
        raise DataError(_nothing_stored(config, folder))
    return {what: path for what, path in found.items() if what != "source" or path.is_file()}


def _nothing_stored(config: ScoreConfig, folder: Path) -> str:
    if not folder.parent.is_dir():
        return f"The run folder {config.run} does not exist: give the folder that training printed last."
    sets = ", ".join(sorted(path.stem for path in folder.glob("*.hyp")))
    if sets:
        return f"The run {config.run} has no hypotheses of set={config.set}; valid choices: {sets}."
    return f"The run {config.run} has no hypotheses yet: let it finish, or give its folder with its seed."


def _of_run(config: ScoreConfig, key: str) -> str | None:
    """A key of the run's frozen configuration, where there is one."""
    folder = RunFolder(Path(config.run or "").expanduser())
    found = flatten(folder.config()).get(key) if config.run is not None and folder.exists() else None
    return str(found) if found else None


def _file_language(path: Path) -> str | None:
    """The language a file name ends in, as in `test.de` or `test.de.gz`."""
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


def copied(texts: Texts) -> list[str]:
    """A remark when hypotheses repeat their source sentence unchanged."""
    if texts.source is None:
        return []
    pairs = zip(texts.hypotheses, texts.source, strict=True)
    count = sum(ours.strip() == theirs.strip() != "" for ours, theirs in pairs)
    return [f"{count} of {len(texts.hypotheses)} hypotheses repeat their source unchanged."] if count else []


def unlisted(language: str) -> list[str]:
    """A remark when Moses has no rules of its own for the language, as for a mistyped one."""
    known = moses_languages()
    if language in known:
        return []
    return [
        f"Moses has no abbreviations of {language!r}, so tokenised scores use the English ones; "
        f"it has those of {', '.join(known)}."
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
    table.add_column("what it is", overflow="fold")  # a signature is never cut
    for item in scores:
        meaning = Text(item.convention)
        if item.signature:
            meaning.append(f"\n{item.signature}", style="dim")
        table.add_row(item.name, f"{item.value:.2f}", meaning)
    console.print(f"{len(texts.references)} lines, target language {texts.language}", markup=False)
    console.print(table)
    for note in notes:
        console.print(f"Note: {note}", markup=False)


main = command(
    score,
    schema=ScoreConfig,
    config_name="score",
    aliases={"task": "kind"},
    examples={
        "run=runs/quickstart/transformer/seed1": "the test set of a run",
        "run=runs/quickstart/transformer/seed1 set=dev": "another of its sets",
        "hyp=out.txt ref=test.de src=test.en": "files, one sentence a line",
        "hyp=out.txt ref=test.fr lang=fr format=json": "one JSON document",
        "task=parsing hyp=parsed.txt ref=gold.txt": "trees, scored as EVALB does",
    },
)
