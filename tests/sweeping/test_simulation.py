"""Sweeps under crashes, pauses, stale listings and rivals: one process at a time trains a row, and none waits forever.

The second half plants bugs and checks that the simulation detects each of them.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from simulated_machines import Violation
from simulation import simulate
from suite import sampled

from variations.commands import run
from variations.store import fence
from variations.store.lease import Lease, Watch
from variations.store.ledger import RunFolder
from variations.sweeping.control import Control
from variations.sweeping.outcomes import Outcome
from variations.sweeping.slurm import SlurmPool

SCHEDULES, MOST = 180, 2_000
"""Schedules that must pass, and within which a bug must be detected: a bug's test stops at the first detection."""
NAMES = itertools.count()


@pytest.mark.slow
def test_whatever_fails_rows_are_trained_by_one_at_a_time_and_every_sweep_ends() -> None:
    worlds = [simulate(seed) for seed in range(SCHEDULES)]
    told = "\n".join(line for world in worlds for line in world.told)
    assert all(len(world.results) == len(world.rows) for world in worlds)
    for event in ("ends with -9", "stands still", "crashes", "is preempted", "old listings", "Slurm does not answer"):
        assert told.count(event) >= 10, f"too few schedules in which a process {event}"


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1_000, 11_000, 1_000))
def test_ten_thousand_schedules(first: int) -> None:
    for seed in range(first, first + 1_000):
        world = simulate(seed)
        assert len(world.results) == len(world.rows), seed


def test_a_schedule_follows_from_its_seed() -> None:
    assert simulate(17).told == simulate(17).told
    assert simulate(17).told != simulate(18).told


class Forgetful(RunFolder):
    """A run that never considers itself finished."""

    def finished(self) -> bool:
        return False


def _never_renewed(self: Lease, *, key: str | None = None) -> bool:
    return _BEAT(self, key=key) if key is not None else self.held()


_BEAT, _LOOK, _MAKE = Lease.beat, Control._look, Lease._make


def _once_gone_for_ever_gone(self: Control, outcome: Outcome) -> None:
    _LOOK(self, outcome)
    if outcome.state == "pending":
        outcome.state = "elsewhere"


def _as_last_seen(self: SlurmPool, key: str) -> bool:
    """Treat a job that is missing from Slurm's last answer as gone, however old that answer is."""
    name, number = self._parts(key)
    return self._queue.refresh() and self._is_live((name, number))


def _anybody(self: Lease) -> bool:
    _MAKE(self)
    return True


BUGS: dict[str, list[tuple[Any, str, Any]]] = {
    "a lease is never renewed": [(Lease, "beat", _never_renewed)],
    "a lease is taken over before it has expired": [
        (Watch, "_silent", lambda self, folder, record: True if folder in self.seen else self.seen.setdefault(folder))
    ],
    "writes do not look at the lease's number": [
        (fence, "scratch", lambda path: path.with_name(f".{path.name}.{next(NAMES)}.tmp")),
        (fence, "check", lambda folder: str(folder) in fence._own),
    ],
    "whoever is late overwrites the result": [(run, "RunFolder", Forgetful)],
    "a lost row is never started again": [(Control, "_look", _once_gone_for_ever_gone)],
    "a sweep waits for rows that have failed": [(Outcome, "ended", property(lambda self: self.ok))],
    "a number is given to two": [(Lease, "_make", _anybody), (Lease, "held", lambda self: True)],
    "a job that Slurm's last answer does not name is gone": [(SlurmPool, "alive", _as_last_seen)],
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", sampled(BUGS, 3))
def test_the_simulation_notices(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, name, value in BUGS[bug]:
        monkeypatch.setattr(target, name, value)
    with pytest.raises(Violation, match=r"Again: python tests/sweeping/simulation\.py --seed"):
        for seed in range(MOST):
            simulate(seed)
