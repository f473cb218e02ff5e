"""Measurements of shapes: asked of child processes, kept in the cache, one fault never the end of the others."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.errors import UserError
from variations.planning.shape import Shape, machine_bytes
from variations.processes import PARENT
from variations.store.atomic import write_json
from variations.tasks.translation.config import TranslationConfig as Config

PATIENCE = 900.0
"""Seconds beyond the limit that a measurement may take: imports, the preparation of data, decoding."""


@dataclass(frozen=True)
class Measured:
    """What was found out about a shape: `values`, or why there are none."""

    values: Mapping[str, Any] | None = None
    fault: str | None = None
    exhausted: bool = False
    """Whether memory ran out."""


def measured(shapes: Mapping[str, Shape], limit: float, *, fresh: bool = False) -> dict[str, Measured]:
    """Measure each shape that the cache does not know.

    Args:
        shapes: By the name of a row that has it.
        limit: Seconds of updates for each.
        fresh: Measure again what is known.

    Returns:
        By the shape's key.
    """
    found: dict[str, Measured] = {}
    todo: dict[str, tuple[str, Shape]] = {}
    for row, shape in shapes.items():
        key = shape.key()
        known = None if fresh else _read(_place(shape, key))
        if known is not None:
            found[key] = known
        else:
            todo.setdefault(key, (row, shape))
    with _bar(len(todo)) as advance:
        for key, (row, shape) in todo.items():
            advance(row)
            found[key] = answer = _measure(shape, limit)
            if answer.values is not None:
                _keep(_place(shape, key), answer.values)
    return found


def _place(shape: Shape, key: str) -> Path:
    return Path(shape.config.data.cache).expanduser().absolute() / "plan" / f"{key}.json"


def _read(path: Path) -> Measured | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Measured(values) if isinstance(values, dict) and "update_seconds" in values else None


def _keep(path: Path, values: Mapping[str, Any]) -> None:
    try:
        write_json(path, dict(values))
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror or error}. Name another folder with data.cache=DIR."
        ) from error


def one_device(config: Config) -> Config:
    """What one device of the run does; the exchange between devices is left out."""
    world = config.trainer.devices * config.trainer.nodes
    trainer = replace(config.trainer, devices=1, nodes=1, strategy="auto", progress=False, max_minutes=None)
    recipe = replace(config.recipe, batch_tokens=max(1, config.recipe.batch_tokens // world))
    if trainer.tokens_per_batch is not None:
        trainer = replace(trainer, tokens_per_batch=min(trainer.tokens_per_batch, recipe.batch_tokens))
    logger = replace(config.logger, mode="offline") if config.logger.mode != "disabled" else config.logger
    return replace(config, trainer=trainer, recipe=recipe, logger=logger)


def _measure(shape: Shape, limit: float) -> Measured:
    """Ask as many processes at the same time as runs will share the machine; times are means, memory the largest."""
    with tempfile.TemporaryDirectory(prefix="variations-plan-") as name:
        folder = Path(name)
        request = {"config": to_dict(one_device(shape.config)), "limit": limit, "memory": _room(shape)}
        meeting = {"folder": str(folder), "count": shape.at_once}
        children: list[_Child] = []
        try:
            for number in range(shape.at_once):
                children.append(_Child(folder / str(number), {**request, "meeting": meeting}, shape))
            return _awaited(children, PATIENCE + 20 * limit)
        finally:
            for child in children:
                child.end()


def _awaited(children: Sequence["_Child"], patience: float) -> Measured:
    """Wait for all, or for the first fault: the others would wait for it in vain."""
    deadline, waiting = time.monotonic() + patience, list(children)
    found: list[Mapping[str, Any]] = []
    while waiting:
        if time.monotonic() > deadline:
            return Measured(fault=f"it did not end within {patience:.0f} s")
        for child in [child for child in waiting if child.popen.poll() is not None]:
            waiting.remove(child)
            answer = child.answer()
            if answer.values is None:
                return answer
            found.append(answer.values)
        time.sleep(0.02)
    return Measured(_merged(found))


def _merged(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged = dict(values[0])
    for name, value in merged.items():
        if name.endswith("_seconds") or name == "save_seconds_per_byte":
            merged[name] = sum(v[name] for v in values) / len(values)
        elif name.endswith("_bytes") and value is not None:
            merged[name] = max(v[name] for v in values)
    # What one of them prepared, the others have waited for.
    merged["prepare_seconds"] = max(v["prepare_seconds"] for v in values)
    return merged


def _room(shape: Shape) -> int | None:
    """Bytes for each of the runs that share the machine; a GPU's memory is asked for in the process itself."""
    total = machine_bytes()
    return None if total is None or shape.config.trainer.accelerator == "gpu" else total // shape.at_once


class _Child:
    """A process that measures."""

    def __init__(self, folder: Path, request: Mapping[str, Any], shape: Shape) -> None:
        folder.mkdir()
        self.place, question = folder / "answer.json", folder / "request.json"
        question.write_text(json.dumps({**request, "spawned": time.time()}), encoding="utf-8")
        source = str(Path(__file__).resolve().parents[2])
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), PARENT: str(os.getpid())}
        if shape.threads is not None:
            environment["OMP_NUM_THREADS"] = str(shape.threads)
        if shape.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = shape.gpu
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "variations.planning.probe", str(question), str(self.place)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def answer(self) -> Measured:
        """What it has found out, once it has ended."""
        try:
            found = json.loads(self.place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return self._without_answer(self.popen.returncode)
        if "ok" in found:
            return Measured(found["ok"])
        return Measured(fault=found["fault"], exhausted=found["memory"])

    def _without_answer(self, code: int) -> Measured:
        if code == -9:  # Linux ends processes so when memory is short
            return Measured(fault="its process was killed, as Linux does when memory runs out", exhausted=True)
        if code < 0:
            return Measured(fault=f"its process was ended by signal {-code}")
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Measured(fault=lines[-1] if lines else f"its process ended with code {code}")

    def end(self) -> None:
        """Leave nothing behind."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()


@contextmanager
def _bar(shapes: int) -> Iterator[Any]:
    """Show how far the measuring is, on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not (shapes and console.is_terminal)) as bar:
        task = bar.add_task("Measuring", total=shapes)
        begun = 0

        def advance(row: str) -> None:
            nonlocal begun
            bar.update(task, description=f"Measuring {row}", completed=begun)
            begun += 1

        yield advance
