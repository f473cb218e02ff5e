"""The study: Optuna's record of all trials, shared by every search process and every run that reports to it.

Trials are reserved under one lock, so that simultaneous searches never exceed the total. A new sampler is created for
each trial, seeded by the search's seed and the trial's number, so that proposals depend only on the recorded trials and
not on how often the search was interrupted.
"""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from variations.configuration.schema import PrunerConfig, RunConfig, SearchConfig
from variations.searching import continuing
from variations.searching.definition import TRIAL, Definition
from variations.searching.objectives import Objective
from variations.store.atomic import told_if_unwritable
from variations.store.ledger import RunFolder
from variations.system.errors import ConfigError, UserError

DEFINED = "variations"
"""User attribute of a study: the definition with which it was started."""
OWNER = "owner"
"""User attribute of a trial: the search process that owns it."""
REASON = "reason"
JOURNAL = b'{"op_code":'
"""How every line of a journal begins."""


def quiet() -> None:
    """Silence Optuna's notices."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def open_storage(where: str) -> Any:
    """Optuna's storage at an absolute path (a journal) or at `sqlite:///FILE`.

    Raises:
        UserError: It cannot be opened.
    """
    import optuna

    from variations.searching.journal import Journal

    quiet()
    path = Path(where.removeprefix("sqlite:///"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if where.startswith("sqlite:///"):
            waiting = {"connect_args": {"timeout": 60}}  # seconds to wait for another process's writes
            return optuna.storages.RDBStorage(where, engine_kwargs=waiting)
        _refuse_foreign(path)
        journal = Journal(path)
        for line in path.read_bytes().split(b"\n")[-2:-1]:  # Optuna finds damage in the last line only when it writes
            json.loads(line)
        return optuna.storages.JournalStorage(journal)
    # A damaged line may fail in any way when Optuna replays it.
    except (OSError, ValueError, RuntimeError, AssertionError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"the study in {where} cannot be opened ({error}): restore that file, or name another with "
            "sweep.search.storage=…."
        ) from error
    except Exception as error:
        if type(error).__module__.startswith(("sqlalchemy", "sqlite3")):
            raise UserError(f"the study in {where} cannot be opened: {str(error).splitlines()[0]}") from error
        raise


def _refuse_foreign(path: Path) -> None:
    """Refuse a file that is not a journal: mending it would truncate what may be a database, or notes.

    Raises:
        UserError: It does not begin as a journal does.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        head = file.read(len(JOURNAL))
    if not JOURNAL.startswith(head):
        raise UserError(
            f"sweep.search.storage={path} is not a journal of Optuna, and stays as it is: name another file, or, if it "
            f"is a database of SQLite, write sweep.search.storage=sqlite:///{path}."
        )


def make_sampler(settings: SearchConfig, number: int) -> Any:
    """Optuna's sampler for trial `number`."""
    import numpy as np
    from optuna import samplers

    seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
    if settings.sampler == "tpe":
        return samplers.TPESampler(n_startup_trials=settings.startup, seed=seed, constant_liar=True)
    if settings.sampler == "gp":
        return samplers.GPSampler(n_startup_trials=settings.startup, seed=seed)
    if settings.sampler == "nsgaii":
        return samplers.NSGAIISampler(population_size=settings.population, seed=seed)
    if settings.sampler == "grid":
        return samplers.BruteForceSampler(seed=seed)  # every cell once, including the baseline's
    return samplers.RandomSampler(seed=seed)


def make_pruner(settings: PrunerConfig, config: RunConfig) -> Any:
    """Optuna's pruner.

    Args:
        settings: The search's settings.
        config: A run's configuration, for its length and its validations.
    """
    from optuna import pruners

    if settings.kind == "median":
        return pruners.MedianPruner(n_startup_trials=settings.startup, n_warmup_steps=settings.warmup)
    if settings.kind == "wilcoxon":
        return pruners.WilcoxonPruner(p_threshold=settings.p)
    if settings.kind == "hyperband":
        last = config.trainer.max_steps
        first = config.trainer.val_every or max(1, last // 10)
        return pruners.HyperbandPruner(min_resource=min(first, last), max_resource=last)
    return pruners.NopPruner()


class Study:
    """The study of a search."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.objectives: Sequence[Objective] = definition.objectives
        with told_if_unwritable(definition.home, "; choose another place with runs=DIR."):
            definition.home.mkdir(parents=True, exist_ok=True)
        file = Path(definition.storage.removeprefix("sqlite:///"))
        self._lock = file.with_name(f".{file.name}.lock")  # of all stores that share the study
        with self.lock():
            self.storage = open_storage(definition.storage)
        self.optuna = self._begin()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One search process at a time, which writes to the study.

        Raises:
            UserError: The lock, or the study, cannot be written.
        """
        from filelock import FileLock

        lock = FileLock(self._lock)
        key = "runs=DIR" if self.definition.settings.storage is None else "sweep.search.storage=…"
        with told_if_unwritable(self._lock.parent, f"; choose another place with {key}."):
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            with self._told("written"):
                yield
        finally:
            lock.release()

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Raise UserError where the study cannot be `done`, that is read or written."""
        from optuna.exceptions import StorageInternalError

        try:
            yield
        except (OSError, StorageInternalError) as error:
            reason = getattr(error, "strerror", None) or str(error.__cause__ or error).splitlines()[0]
            raise UserError(
                f"the study in {self.definition.storage} cannot be {done} ({reason}): repair that, and run the same "
                "command again to continue the search."
            ) from error

    def _begin(self) -> Any:
        import optuna
        from optuna.study import StudyDirection

        definition, settings = self.definition, self.definition.settings
        fresh = continuing.facts_of(definition)
        with self.lock():
            names = optuna.get_all_study_names(self.storage)
            if definition.name not in names:
                continuing.refuse_orphans(definition)
            study = optuna.create_study(
                storage=self.storage,
                study_name=definition.name,
                directions=[StudyDirection[objective.direction.upper()] for objective in self.objectives],
                sampler=optuna.samplers.RandomSampler(seed=0),
                pruner=make_pruner(settings.pruner, definition.base),
                load_if_exists=True,
            )
            continuing.refuse_foreign(definition, study)
            known = study.user_attrs.get(DEFINED)
            if known is None:
                continuing.claim(definition, study)
                study.set_metric_names([objective.key for objective in self.objectives])
                if definition.enqueued is not None:
                    facts = {"baseline": settings.baseline}
                    study.enqueue_trial(dict(definition.enqueued), user_attrs=facts, skip_if_exists=True)
                study.set_user_attr(DEFINED, fresh)  # last, because a study without it is set up again
            elif faults := continuing.faults(known, fresh, definition, study):
                raise ConfigError(faults)
            elif continuing.trial_folders(definition):  # of an earlier version, whose studies do not say where
                continuing.claim(definition, study)
        return study

    # Trials ---------------------------------------------------------------------------------------------------------

    def trials(self) -> list[Any]:
        """All trials by number, including waiting ones. Raises UserError if they cannot be read."""
        with self._told("read"):
            found: list[Any] = self.optuna.get_trials(deepcopy=False)
        return found

    def begun(self) -> int:
        """Number of trials that count: all but the waiting ones."""
        return sum(trial.state.name != "WAITING" for trial in self.trials())

    def reserve(self, owner: str) -> tuple[int, dict[str, Any]] | None:
        """Start a trial and return its number and values; None if the total is reached."""
        with self.lock():
            if self.begun() >= self.definition.total:
                return None
            self.optuna.sampler = make_sampler(self.definition.settings, len(self.trials()))
            trial = self.optuna.ask()
            trial.set_user_attr(OWNER, owner)
            return trial.number, self._values(trial)

    def adopt(self, number: int, former: str | None, owner: str) -> dict[str, Any] | None:
        """Take over a running trial whose search process has died; return its values, or None if another was faster."""
        from optuna.trial import Trial

        with self.lock():
            frozen = self.trials()[number]
            if frozen.state.name != "RUNNING" or frozen.user_attrs.get(OWNER) != former:
                return None
            self.optuna.sampler = make_sampler(self.definition.settings, number)
            trial = Trial(self.optuna, frozen._trial_id)
            trial.set_user_attr(OWNER, owner)
            return self._values(trial)

    def _values(self, trial: Any) -> dict[str, Any]:
        return {d.key: d.suggest(trial) for d in self.definition.dimensions}

    def tell(self, number: int, state: str, values: Sequence[float] | None = None, reason: str | None = None) -> None:
        """Close a trial as COMPLETE with its values, PRUNED, or FAIL with a reason; a closed one is not changed."""
        import optuna

        with self.lock():
            trial = self.trials()[number]
            if trial.state.is_finished():
                return
            if reason is not None:
                self.storage.set_trial_user_attr(trial._trial_id, REASON, reason[:2000])
            self.optuna.sampler = optuna.samplers.RandomSampler(seed=0)
            final = optuna.trial.TrialState[state]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.optuna.tell(number, list(values) if values is not None else None, state=final)

    def unlike(self, folders: Sequence[RunFolder]) -> str | None:
        """Why the runs of a trial cannot be ranked beside the first finished trial; None if they can, or if it is lost.

        Texts or own code may have been edited while the search went on.
        """
        numbers = sorted(trial.number for trial in self.trials() if trial.state.name == "COMPLETE")
        for folder in folders:
            former = (RunFolder(self.definition.home / f"{TRIAL}{k}" / folder.path.name) for k in numbers)
            first = next((each for each in former if each.begun()), None)
            if first is not None and (names := continuing.other_inputs(folder, first)):
                return f"{', '.join(names)} changed after {first.row} was started, with which it could not be compared"
        return None

    def repeats(self, number: int) -> bool:
        """Whether another trial, a finished one, has the values of this one."""
        trials = self.trials()
        finished = [other for other in trials if other.state.name == "COMPLETE" and other.number != number]
        return any(other.params == trials[number].params for other in finished)

    def running(self) -> dict[int, str | None]:
        """Open trials, each with the search process that owns it."""
        return {trial.number: trial.user_attrs.get(OWNER) for trial in self.trials() if trial.state.name == "RUNNING"}
