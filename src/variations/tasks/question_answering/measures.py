"""Measures of answers, published results, and when the two may be compared."""

import io
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.store.atomic import read_json, replaced
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, read_fault
from variations.tasks.base import PERCENT, POSITIVE, Measure, Published, Restarts, TestedRun
from variations.tasks.question_answering.corpus import TASKS
from variations.tasks.sequences.stored import given_digest
from variations.tasks.task import Task

FAILED = 5.0
"""A task with a larger error, in percent, counts as failed (Weston et al. 2016)."""
CONVENTION = "percentage of test questions answered incorrectly by the restart with the lowest training error"
SCORES = {
    "error": ("mean error %", "mean over tasks of the " + CONVENTION),
    "failed": ("failed tasks", f"tasks with an error above {FAILED:g} %"),
    "error_of_restarts": ("mean error % of all restarts", "mean over tasks and restarts"),
    "error_sd": ("sd of restarts", "standard deviation over restarts of their mean error over tasks"),
    **{f"task_{number}": (f"{number} {name.replace('-', ' ')}", CONVENTION) for number, name in enumerate(TASKS, 1)},
}
"""Scores of the test set: heading and convention."""
PUBLISHED = {
    "mean_error": ("error", "mean error %"),
    "failed": ("failed", "failed tasks"),
    **{f"task_{number}": (f"task_{number}", name.replace("-", " ")) for number, name in enumerate(TASKS, 1)},
}
"""Keys of `variation.published` for the tests of bAbI 1.2: the score that corresponds to each, and its heading."""
QUESTIONS = {"babi_memn2n_1k": "1k", "babi_memn2n_10k": "10k", "babi_dmn": "10k"}
"""By table of published figures: training questions of each task."""
ANSWERS = "answers.npz"
"""File of a run's `hypotheses`: which questions each restart answered wrong."""
CARD = "stories.json"
"""File in the run's folder with its vocabularies and the fingerprint of its questions."""


def ranked(errors: Sequence[float], losses: Sequence[float | None]) -> list[int]:
    """Restarts by training error, those of equal error by training loss, of which one that is not finite comes last."""
    known = [math.inf if loss is None or math.isnan(loss) else loss for loss in losses]
    return sorted(range(len(errors)), key=lambda restart: (errors[restart], known[restart]))


def scores(wrong: Mapping[int, NDArray[Any]], chosen: Mapping[int, int]) -> dict[str, dict[str, Any]]:
    """Scores from the mistakes (R, Q) in each task and the restart chosen for it."""
    tasks = {task: 100 * float(mistakes[chosen[task]].mean()) for task, mistakes in wrong.items()}
    of_restarts = np.stack([100 * mistakes.mean(1) for mistakes in wrong.values()])  # (tasks, R)
    values = {
        "error": float(np.mean(list(tasks.values()))),
        "failed": float(sum(error > FAILED for error in tasks.values())),
        "error_of_restarts": float(of_restarts.mean()),
        **({"error_sd": float(of_restarts.mean(0).std(ddof=1))} if of_restarts.shape[1] > 1 else {}),
        **{f"task_{task}": error for task, error in tasks.items()},
    }
    return {name: {"value": value, "convention": SCORES[name][1]} for name, value in values.items()}


def keep(folder: RunFolder, arrays: Mapping[str, NDArray[Any]], chosen: Mapping[int, int]) -> None:
    """Store each task's mistakes (R, Q) and the restart chosen for it."""
    folder.hypotheses.mkdir(exist_ok=True)
    packed = io.BytesIO()
    tasks = sorted(chosen)
    stored: dict[str, Any] = {"tasks": np.array(tasks), "chosen": np.array([chosen[task] for task in tasks]), **arrays}
    np.savez_compressed(packed, **stored)
    with replaced(folder.hypotheses / ANSWERS) as temporary:
        temporary.write_bytes(packed.getvalue())


class Measures(Task):
    """The members of the task for readers of stored runs."""

    scores: Mapping[str, tuple[str, str]] = SCORES
    metrics: Sequence[str] = ("dev_nll", "test.error")
    tested_keys: Sequence[str] = ("data.kind", "data.tasks", "data.seed", "data.toy_questions")
    # `joint` and `ngrams` decide the answers to choose among.
    loss_keys: Sequence[str] = ("data.questions", "data.joint", "data.ngrams", "data.valid")

    def same_texts(self, config: Mapping[str, Any]) -> Sequence[str]:
        """What is made of the stories, which tasks share a network, and the questions that are held out."""
        return ("data.memory", "data.ngrams", "data.joint", "data.valid")

    def watched(self, key: str) -> str | None:
        """Validations measure the loss as `dev/loss`."""
        return "dev/loss" if key == "dev_nll" else super().watched(key)

    def measure(self, key: str) -> Measure:
        """Any score of the test set, and the loss."""
        part, _, score = key.partition(".")
        if key == "dev_nll":
            convention = "nats per held-out question, mean over networks (one for each task, or for all) and restarts"
            return Measure(
                key, "dev loss", higher_is_better=False, convention=convention, set="dev", is_loss=True, range=POSITIVE
            )
        if part != "test" or score not in SCORES:
            return super().measure(key)
        label, convention = SCORES[score]
        items = "" if score.startswith("error_") else "questions"
        whole = "test.error" if score.startswith("task_") else ""
        limits, digits = ((0.0, float(len(TASKS))), 1) if score == "failed" else (PERCENT, 2)
        return Measure(
            key,
            label,
            higher_is_better=False,
            convention=convention,
            items=items,
            digits=digits,
            part_of=whole,
            range=limits,
        )

    def further(self, metric: Measure) -> Sequence[str]:
        """Failed tasks, mean and standard deviation over restarts, and the error of each task."""
        return [f"test.{name}" for name in SCORES]

    def published(self, key: str) -> Published:
        """An error on the test questions of bAbI 1.2; an unknown key gets its own column."""
        if key not in PUBLISHED:
            return super().published(key)
        score, label = PUBLISHED[key]
        return Published(key, label, "the test questions of bAbI 1.2", SCORES[score][1], (f"test.{score}",))

    def data_name(self, config: Mapping[str, Any]) -> str:
        """`babi 1k`, `babi_toy`."""
        data = config.get("data") or {}
        name = str(data.get("name", ""))
        if data.get("kind") == "babi":
            return f"{'babi' if name == 'babi_toy' else name} {data.get('questions')}"
        return "babi_toy" if name == "babi" else name

    def conditions(self, config: Mapping[str, Any], result: Mapping[str, Any], *, scaled: bool) -> str:
        """Stories and recipe; tasks, if not all; of generated stories, number of questions and seed."""
        data, recipe = config.get("data") or {}, (config.get("recipe") or {}).get("name")
        chosen, trained = data.get("tasks") or [], f", recipe {recipe}" if recipe else ""
        tasks = f"tasks {', '.join(map(str, chosen))}"
        if data.get("kind") == "toy":
            stories = f"{data.get('toy_questions', 0):,} questions a task, data.seed={data.get('seed')}"
            return f"{self.data_name(config)} ({tasks}, {stories}){trained}"
        left_out = [number for number in range(1, len(TASKS) + 1) if number not in chosen]
        if not chosen or not left_out:
            return f"{self.data_name(config)}{trained}"
        if len(left_out) < len(TASKS) // 2:
            tasks = f"without task{'s' if len(left_out) > 1 else ''} {', '.join(map(str, left_out))}"
        return f"{self.data_name(config)} ({tasks} of {len(TASKS)}){trained}"

    def misnamed(self, result: Mapping[str, Any]) -> str | None:
        """Stories that have the names of bAbI's files, but are not those of bAbI 1.2."""
        other = result.get("not_of_babi")
        if not isinstance(other, Sequence) or not other:
            return None
        tasks = f"task{'s' if len(other) > 1 else ''} {', '.join(map(str, other))}"
        return f"the stories of {tasks} in data.root were not those of bAbI 1.2"

    def incomparable(self, published: Published, config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
        """Only runs on bAbI are compared with its published errors."""
        data = config.get("data") or {}
        if published.key not in PUBLISHED:
            return None
        if other := self.misnamed(result):
            return other
        if data.get("kind") != "babi":
            return "the run was tested on generated stories"
        if published.key in ("mean_error", "failed") and len(data.get("tasks") or ()) != len(TASKS):
            return f"the run had {len(data.get('tasks') or ())} of the {len(TASKS)} tasks"
        return None

    def caveats(
        self, published: Published, key: str, config: Mapping[str, Any], result: Mapping[str, Any]
    ) -> list[str]:
        """Other training questions than those of the published figure; fewer restarts of MemN2N than in its paper."""
        model, data = config.get("model") or {}, config.get("data") or {}
        restarts, questions = model.get("restarts", 10), data.get("questions", "1k")
        found = []
        wanted = QUESTIONS.get(str((config.get("variation") or {}).get("table")))
        if wanted is not None and questions != wanted:
            found.append(f"trained on {questions} questions of each task, not on {wanted}")
        if model.get("kind") == "memn2n" and restarts < 10:
            found.append(f"best of {restarts} restart{'s' if restarts > 1 else ''}, not of 10")
        return found

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> NDArray[Any]:
        """A row for each test question, (Q, 2 · tasks): in its task's two columns, 1 if the answer is wrong, and 1.

        Raises DataError if the run has not stored its answers, or if the measure has no values per question.
        """
        wrong = _stored(run.folder, measure)
        return _rows([mistakes[restart] for mistakes, restart in wrong.values()])

    def restarts(self, run: TestedRun, measure: Measure) -> Restarts | None:
        """The same for each restart (R, Q, 2 · tasks), with their order by training error; None if there is only one.

        Raises DataError as `items` does.
        """
        networks = run.result.get("networks") or {}
        learned = [(net["train_error"], net["train_loss"]) for net in networks.values()]
        if not learned or len(learned[0][0]) < 2:
            return None
        wrong = _stored(run.folder, measure)
        if any(len(mistakes) != len(errors) for mistakes, _ in wrong.values() for errors, _ in learned):
            path = run.folder.hypotheses / ANSWERS
            raise DataError(f"{path} does not have the answers of as many restarts as result.json: restore it")
        if measure.key in ("test.error", "test.failed"):
            self._compare_restarts(run, {task: mistakes for task, (mistakes, _) in wrong.items()})
        names = list(networks)
        group = [names.index(str(task)) if str(task) in networks else 0 for task in wrong]  # 0: the joint network
        return Restarts(
            items=_rows([mistakes for mistakes, _ in wrong.values()]),
            group=np.repeat(group, [mistakes.shape[1] for mistakes, _ in wrong.values()]),
            order=np.array([ranked(errors, losses) for errors, losses in learned]),
        )

    def _compare_restarts(self, run: TestedRun, wrong: Mapping[int, NDArray[Any]]) -> None:
        """Raise DataError if the stored answers do not have the mean and spread over restarts of the run's result."""
        counted = scores(wrong, dict.fromkeys(wrong, 0))
        for measure in map(self.measure, ("test.error_of_restarts", "test.error_sd")):
            stored, found = measure.value(run.result), counted.get(measure.key.partition(".")[2])
            if stored is not None and found is not None and abs(stored - found["value"]) > 10**-measure.digits:
                raise DataError(
                    f"{measure.label} in result.json is {stored:.2f}, but that of its stored answers is "
                    f"{found['value']:.2f}: restore {ANSWERS}"
                )

    def aggregate(self, measure: Measure, sums: NDArray[Any]) -> NDArray[Any]:
        """The mean of the tasks' errors, or the number of failed tasks, from sums (…, 2 · tasks) to (…)."""
        sums = np.asarray(sums, dtype=np.float64)
        errors = 100 * sums[..., ::2] / np.maximum(sums[..., 1::2], 1)  # (…, tasks)
        found: NDArray[np.float64] = (errors > FAILED).sum(-1) if measure.key == "test.failed" else errors.mean(-1)
        return np.asarray(found, dtype=np.float64)

    def references(self, folder: RunFolder, part: str) -> str | None:
        """The fingerprint of the stories, which the test questions belong to."""
        try:
            return str(read_json(folder.path / CARD)["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError):
            return given_digest(folder.hypotheses, part)

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """Which questions each restart answered wrong: numbers only, no text of the stories."""
        path, digest = run.folder.hypotheses / ANSWERS, self.references(run.folder, "test")
        files = {f"hypotheses/{ANSWERS}": path.read_bytes()} if path.is_file() else {}
        return files | ({"hypotheses/test.ref.sha256": f"{digest}\n".encode()} if digest else {})


def _stored(folder: RunFolder, chosen: Measure) -> dict[int, tuple[NDArray[Any], int]]:
    """Mistakes (R, Q) in the tasks of a measure, and the restart chosen for each."""
    if not chosen.items:
        raise DataError(f"{chosen.label} has no values per question.")
    name = chosen.key.partition(".")[2]
    path = folder.hypotheses / ANSWERS
    if not path.is_file():
        raise DataError(f"{folder.path} has no answers: test the run first.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            wrong = {
                int(task): (stored[f"wrong_{task}"], int(restart))
                for task, restart in zip(stored["tasks"], stored["chosen"], strict=True)
                if name in ("error", "failed", f"task_{task}")
            }
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({read_fault(error, path)}): restore it, or test the run again.") from error
    if any(found.ndim != 2 or not 0 <= restart < len(found) for found, restart in wrong.values()):
        raise DataError(f"{path} is damaged: it does not contain the answers of each restart. Restore it.")
    if not wrong:
        raise DataError(f"{folder.path} was not tested on {chosen.label}.")
    if len({len(found) for found, _ in wrong.values()}) > 1:
        raise DataError(f"{path} is damaged: its tasks have different numbers of restarts. Restore it.")
    return wrong


def _rows(wrong: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Mistakes (…, Q_t) in each task t as (…, Q, 2 · tasks): in the task's two columns, the mistake and a 1."""
    counts = [mistakes.shape[-1] for mistakes in wrong]
    rows = np.zeros((*wrong[0].shape[:-1], sum(counts), 2 * len(wrong)))
    at = 0
    for column, (mistakes, count) in enumerate(zip(wrong, counts, strict=True)):
        rows[..., at : at + count, 2 * column] = mistakes
        rows[..., at : at + count, 2 * column + 1] = 1
        at += count
    return rows
