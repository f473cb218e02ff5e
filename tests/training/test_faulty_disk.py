"""A power cut at any moment, or a disk that fails at the n-th write: the resumed run equals the undisturbed one."""

import errno
import os
import pickle
import random
import re
import sys
from pathlib import Path
from typing import Any

import faulty_disk
import pytest
from forking import forked
from suite import sampled

import torture
from variations.commands import run
from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig
from variations.store.ledger import RunFolder
from variations.system.errors import ExitCode

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the tests fork")
CHANGES = (
    "recipe.average=2",
    "recipe.average_every=3",
    "recipe.ema=0.9",
    "trainer.checkpoint_every=2",
    "trainer.val_every=4",
)
NO_FURTHER = 98
"""Exit code of a process that ends before the failing operation."""


def home(place: Path) -> RunFolder:
    return RunFolder(place / "single" / "run" / "seed1")


def start(config: RunConfig, place: Path) -> None:
    """Start or resume the run as the command does."""
    folder = home(place).create(to_dict(config))
    if not folder.finished():
        run.run(folder.path)


@pytest.fixture(scope="module")
def undisturbed(
    overrides: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunConfig, dict[str, Any], list[faulty_disk.Event], Path]:
    """A run of twelve updates, its results, and everything that reached the disk."""
    import variations.training.outcome  # noqa: F401 - import once, not in every process
    from variations.configuration.compose import compose_run

    place = tmp_path_factory.mktemp("undisturbed")
    config = compose_run([*overrides(place, *CHANGES), "name=run"])

    def record() -> None:
        with faulty_disk.recorded(place) as events:
            start(config, place)
        (place.parent / "events").write_bytes(pickle.dumps(events))

    assert forked(record, place.parent / "undisturbed.log") == 0, (place.parent / "undisturbed.log").read_text()
    expected = torture.contents(home(place))
    assert [line["step"] for line in expected["metrics"]] == list(range(1, 13))
    return config, expected, pickle.loads((place.parent / "events").read_bytes()), place


def differences(config: RunConfig, place: Path, expected: dict[str, Any]) -> list[str]:
    """Resume a run; return how its results differ, and the leftover files that nothing will remove."""
    log, folder = place / "log", home(place)
    nothing_to_do = folder.exists() and folder.finished()
    if code := forked(lambda: start(config, place), log):
        return [f"exit code {code}: {log.read_text()[-1500:]}"]
    found = list(torture.differences(expected, torture.contents(folder)))
    left = [] if nothing_to_do else list(folder.path.rglob(".*"))
    return [*found, *(f"left over: {path}" for path in left)]


NOT_WRITTEN = r"Cannot write \S+/(status|lease-\d+)[.]json: .*"
"""The lines beside the error: the failure could not be recorded, or the lease not released, which readers see."""
NOT_BEGUN = r"error: the run's folder \S+ cannot be made or written \(.*\): choose another place with runs=DIR[.]"
GOES_ON = r"error: .* run the same command again to continue[.]"


def misconduct(code: int, told: str, place: Path, error: int) -> list[str]:
    """Return what is wrong with the end of a run whose disk failed: its exit code, its words, its remnants.

    Only the release of the lease may fail in a run that ends well: the end of its process releases it as well.
    """
    lines, folder = told.splitlines(), home(place)
    errors = [line for line in lines if not re.fullmatch(NOT_WRITTEN, line)]
    begun = (folder.path / "status.json").exists() or folder.begun()
    match code:
        case ExitCode.OK:
            well = errors == [] and len(lines) == 1 and "/lease-1.json: " in lines[0] and folder.finished()
        case ExitCode.USAGE:
            well = not begun and len(errors) == 1 and re.fullmatch(NOT_BEGUN, errors[0]) is not None
        case _:
            well = code == ExitCode.FAILED and len(errors) == 1 and re.fullmatch(GOES_ON, errors[0]) is not None
    left = [str(path) for path in place.rglob("*") if path.name.startswith(".") or ".tmp" in path.name]
    return [
        *([] if well and os.strerror(error) in told else [f"exit code {code}: {told[-2500:]}"]),
        *(f"left over: {path}" for path in left),
    ]


def faults_after_power_cuts(undisturbed: Any, place: Path, points: int) -> list[str]:
    """Return the faults found after resuming from power cuts at `points` moments."""
    config, expected, events, root = undisturbed
    assert {event.kind for event in events} >= {"write", "flush", "added", "gone"}
    rng, wrong = random.Random(1), []
    for number in range(points):
        moment = round((number + rng.random()) / points * len(events))
        disk = place / f"cut{number}"
        disk.mkdir()
        faulty_disk.rebuild(events[:moment], root, disk, rng)
        wrong += [f"after {moment} of {len(events)}: {line}" for line in differences(config, disk, expected)]
    return wrong


@pytest.mark.slow
def test_after_a_power_cut_the_run_continues_as_if_there_had_been_none(undisturbed: Any, tmp_path: Path) -> None:
    assert faults_after_power_cuts(undisturbed, tmp_path, 8) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_after_a_power_cut_at_any_of_200_moments(undisturbed: Any, tmp_path: Path) -> None:
    assert faults_after_power_cuts(undisturbed, tmp_path, 200) == []


def faults_after_refusals(undisturbed: Any, place: Path, error: int, every: int, first: int) -> list[str]:
    """Return the faults found when the disk fails from each `every`-th operation on, and after resuming the run."""
    config, expected, _, _ = undisturbed
    at, wrong = first, list[str]()
    while True:
        disk = place / f"{errno.errorcode[error]}-{at}"
        disk.mkdir()
        log = disk.with_suffix(".log")

        def refused(disk: Path = disk, at: int = at) -> None:
            with faulty_disk.failing(disk, at=at, error=error) as done:
                start(config, disk)
            if len(done) < at:
                raise SystemExit(NO_FURTHER)

        code, where = forked(refused, log), f"{errno.errorcode[error]} from operation {at} on"
        if code == NO_FURTHER:
            break
        wrong += [f"{where}: {line}" for line in misconduct(code, log.read_text(), disk, error)]
        wrong += [f"{where}, then: {line}" for line in differences(config, disk, expected)]
        at += every
    assert at > first
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(("error", "first"), sampled([(errno.ENOSPC, 13), (errno.EROFS, 90), (errno.EIO, 60)], 2))
def test_a_disk_that_refuses_is_told_of_in_a_sentence_and_the_run_continues(
    error: int, first: int, undisturbed: Any, tmp_path: Path
) -> None:
    assert faults_after_refusals(undisturbed, tmp_path, error, 150, first) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_at_any_write(error: int, undisturbed: Any, tmp_path: Path) -> None:
    assert faults_after_refusals(undisturbed, tmp_path, error, 1, 1) == []
