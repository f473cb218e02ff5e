"""The twenty bAbI tasks, separately or jointly, with 1,000 or 10,000 training questions each."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

from variations.data.text import read_text
from variations.system.errors import DataError, UserError
from variations.tasks.question_answering.reader import Question, read

TASKS = (
    "single-supporting-fact",
    "two-supporting-facts",
    "three-supporting-facts",
    "two-arg-relations",
    "three-arg-relations",
    "yes-no-questions",
    "counting",
    "lists-sets",
    "simple-negation",
    "indefinite-knowledge",
    "basic-coreference",
    "conjunction",
    "compound-coreference",
    "time-reasoning",
    "basic-deduction",
    "basic-induction",
    "positional-reasoning",
    "size-reasoning",
    "path-finding",
    "agents-motivations",
)
"""Names of tasks 1 to 20, as in the file names."""

FOLDERS = {"1k": "en", "10k": "en-10k"}
"""Training questions per task, and the folder for that size."""


@dataclass(frozen=True)
class Split:
    """The training, validation and test questions of one task."""

    task: int
    train: list[Question]
    valid: list[Question]
    test: list[Question]


def load(root: Path, tasks: Sequence[int], size: str = "1k", valid: float = 0.1, seed: int = 1) -> list[Split]:
    """The tasks' questions; a part of the training questions, drawn with `seed`, is held out for validation.

    Args:
        root: the folder with `en` and `en-10k`.
        tasks: numbers from 1 to 20.
        size: `1k` or `10k`.
        valid: the share of the training questions that is held out, from 0 to below 1.
        seed: of the draw of the held-out part; the same for each task.

    Raises:
        UserError: an unknown task or size, or an impossible share.
        DataError: files are missing or malformed; all are named.
    """
    _check(tasks, size, valid)
    faults: list[str] = []
    splits = []
    for task in tasks:
        read_questions: dict[str, list[Question]] = {}
        for part in ("train", "test"):
            try:
                read_questions[part] = read(path_of(root, task, size, part, tasks))
            except DataError as fault:
                faults.append(str(fault))
        if len(read_questions) == 2:
            train, held_out = hold_out(read_questions["train"], valid, seed)
            splits.append(Split(task, train, held_out, read_questions["test"]))
    if faults:
        raise DataError("\n".join(faults))
    return splits


def hold_out(questions: list[Question], part: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Split off a share of `questions`, drawn with `seed`; both keep their order, and the first is never empty.

    The product of number and share is rounded down. Rounding in floating point can make that one question fewer (429 of
    10,000 at 0.043). It stays so: another number is another draw, with which no begun run could be continued.
    """
    chosen = set(Random(seed).sample(range(len(questions)), int(len(questions) * part)))  # noqa: S311 - no secret
    kept = [question for index, question in enumerate(questions) if index not in chosen]
    return kept, [question for index, question in enumerate(questions) if index in chosen]


def path_of(root: Path, task: int, size: str, part: str, wanted: Sequence[int] = ()) -> Path:
    """The file of a task, compressed or not.

    Raises:
        DataError: it is missing; the message says how to leave the task out of those that are `wanted`.
    """
    folder = root / FOLDERS[size]
    name = f"qa{task}_{TASKS[task - 1]}_{part}.txt"
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}: data.root must be the folder with en and en-10k of bAbI 1.2.")
    names = {path.name.removesuffix(".gz") for path in folder.iterdir() if path.is_file()}
    there = [str(t) for t in wanted if names >= {f"qa{t}_{TASKS[t - 1]}_{each}.txt" for each in ("train", "test")}]
    without = f", or leave the task out with task=question_answering 'data.tasks=[{','.join(there)}]'" if there else ""
    raise DataError(
        f"Task {task} has no {part} file: neither {folder / name} nor {name}.gz exists. Use a complete copy{without}."
    )


def fingerprint(root: Path, tasks: Sequence[int], size: str) -> str:
    """SHA-256 over the texts that `load` reads, compressed or not: the same fingerprint means the same questions."""
    digest = sha256()
    for task in tasks:
        for part in ("train", "test"):
            text = sha256(read_text(path_of(root, task, size, part)).encode()).hexdigest()
            digest.update(f"{task} {part} {text}\n".encode())
    return digest.hexdigest()


def _check(tasks: Sequence[int], size: str, valid: float) -> None:
    unknown = sorted({task for task in tasks if not 1 <= task <= len(TASKS)})
    if unknown or not tasks:
        named = f"task {', '.join(map(str, unknown))} is unknown" if unknown else "no task is named"
        raise UserError(f"{named.capitalize()}: the tasks of bAbI are 1 to {len(TASKS)}.")
    if size not in FOLDERS:
        raise UserError(f'Unknown size "{size}" of bAbI. Valid choices: {", ".join(FOLDERS)}.')
    if not 0 <= valid < 1:
        raise UserError(f"The share held out for validation is {valid}; it must be at least 0 and below 1.")
