"""The folder of one run: written by the run, read by tables, figures and the dashboard.

    runs/<sweep>/<row>/seed<k>/
        config.yaml        frozen and resolved
        status.json        running, finished, failed (and why), interrupted or pruned
        metrics.jsonl      one line per measurement
        log.txt            what the run printed, when a sweep started it
        lease-<n>.json     the process that executes it, or did last (see lease.py)
        result.json        scores and costs
        environment.json   commit, versions, hardware; environment-<step>.json: until that step, with other code
        inputs.json        SHA-256 of each text, of the vocabulary and of the ids made with it
        hypotheses/        <set>.hyp .ref .src
        checkpoints/

A record (`record.py`) is the same folder without log, leases and checkpoints, with measurements and texts gzipped.

Every file except metrics.jsonl and log.txt is replaced as a whole. This module imports no torch.
"""

import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import yaml

from variations.configuration.foreign import filled
from variations.configuration.places import SEED_FOLDER
from variations.store import conflicts, fence, lease
from variations.store.atomic import (
    make_folder,
    read_json,
    read_object,
    read_yaml,
    replaced,
    write_json,
    write_new_yaml,
    write_yaml,
)
from variations.store.checksums import is_sound
from variations.store.contents import sealed
from variations.store.environment import version
from variations.store.identity import changed_keys, config_hash
from variations.store.measurements import Measurements
from variations.store.process_identity import Process
from variations.store.status import DELETE_IT, STATES, Status
from variations.system.errors import TakenOverError, UserError, read_fault, yaml_fault

FORMER = re.compile(r"config-(\d+)\.yaml")
"""Name of a former configuration."""


class RunFolder:
    """The folder of one run. Reading never writes, and writing never leaves a partial file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.measurements = Measurements(self.path / "metrics.jsonl")

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    # Places ---------------------------------------------------------------------------------------------------------

    @property
    def hypotheses(self) -> Path:
        """Folder of <set>.hyp, <set>.ref and <set>.src."""
        return self.path / "hypotheses"

    @property
    def checkpoints(self) -> Path:
        """Folder of the run's checkpoints."""
        return self.path / "checkpoints"

    @property
    def log(self) -> Path:
        """The file log.txt."""
        return self.path / "log.txt"

    @property
    def seed(self) -> int:
        """Seed in the folder's name; 0 if there is none."""
        match = SEED_FOLDER.fullmatch(self.path.name)
        return int(match[1]) if match else 0

    @property
    def attempt(self) -> int:
        """1 for seed<k>, n for seed<k>-attempt<n>."""
        match = SEED_FOLDER.fullmatch(self.path.name)
        return int(match[2] or 1) if match else 1

    @property
    def row(self) -> str:
        """Name of the row, or of the single run."""
        return self.path.parent.name

    # Configuration --------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether this is the folder of a run, or one that this user has no permission to read."""
        try:
            return (self.path / "config.yaml").is_file()
        except PermissionError:
            return True

    def begun(self) -> bool:
        """Whether training or a test has left any file, or may have left one that may not be read."""
        files = (self.measurements.path, self.path / "result.json")
        try:
            return any(file.is_file() and file.stat().st_size for file in files) or any(self.checkpoints.glob("[!.]*"))
        except PermissionError:
            return True

    def has_trained(self) -> bool:
        """Whether something is left, or has been lost, that depends on the run's inputs and would be continued.

        Measurements alone are not: without a checkpoint the run starts anew, and they are dropped.
        """
        result = self.path / "result.json"
        return result.is_file() or self.has_checkpoint() or self._trained_to() is not None

    def has_checkpoint(self) -> bool:
        """Whether a checkpoint of training is left."""
        return any(self.checkpoints.glob("step*.ckpt"))

    def _trained_to(self) -> int | None:
        """Step of the latest checkpoint ever written, by status.json or else by the result; None before the first."""
        step = (self._read_json("status.json", tolerant=True) or {}).get("checkpoint")
        if step is None:  # or status.json was lost
            result = self._read_json("result.json", tolerant=True) or {}
            step = None if result.get("reused") else result.get("steps")
        return step if isinstance(step, int) else None

    def refuse_lost_checkpoints(self) -> None:
        """Check that a run which has written checkpoints still has one.

        Raises:
            UserError: they are gone; the run would silently train from the start.
        """
        if (step := self.lost_checkpoint()) is not None:
            raise UserError(
                f"{self.path} was trained to at least step {step}, but its checkpoints are missing from "
                f"{self.checkpoints}: put them back to continue the run, or train it again as a new attempt "
                "(force=true)."
            )

    def lost_checkpoint(self) -> int | None:
        """Step of the latest checkpoint if all have been deleted; None if some are left, or none was ever written."""
        return None if self.has_checkpoint() else self._trained_to()

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """An existing run. Raises UserError if there is none at `path`."""
        folder = cls(path)
        if not folder.exists():
            raise UserError(
                f"There is no run in {folder.path}: it has no config.yaml. Give the folder of a single run, such as "
                "runs/quickstart/transformer/seed1."
            )
        return folder

    def create(self, config: Mapping[str, Any]) -> Self:
        """Make the folder and freeze `config` (plain, resolved) in it.

        A finished run with the same configuration is left unchanged; an unfinished one takes new values of keys that do
        not identify the run (paths, names, loggers). In an unfinished run, keys named in `resume.allow` may differ;
        in one that ended before its first measurement, all may. The former configuration is kept as config-<n>.yaml,
        and what changed after a checkpoint is listed in `resume.changed`.

        Raises:
            UserError: the folder belongs to another configuration (the message lists the keys that differ), has lost
                its own, or cannot be made.
            InUseError: another process executes the run that is to be changed.
        """
        config = filled(config)
        if not self.exists():
            if self.begun():
                raise UserError(
                    f"{self.path} contains files of a run, but not its config.yaml, so it is unknown which run it was: "
                    "restore that file, move the folder away, or give this run another name with name=… (a sweep: "
                    "sweep.name=…)."
                )
            with lease.writing(self.path):
                for folder in (self.path, self.hypotheses, self.checkpoints):
                    make_folder(folder)
                made = write_new_yaml(self.path / "config.yaml", config)
            return self if made else self.create(config)  # another command was faster
        stored = self.config()
        config = conflicts.with_history(config, conflicts.history(stored))
        changes = changed_keys(stored, config)
        if changes:
            self._change(config, changes)
        elif not self.finished() and (state := self.state()) != "running":
            with lease.writing(self.path):
                write_yaml(self.path / "config.yaml", config)
                if state == "finished":
                    self.set_status("interrupted", "its result.json is missing, so it is tested again")
        return self

    def idle_run_of(self, config: Mapping[str, Any]) -> bool:
        """Whether this is a run of the configuration, or may change to it, that nobody executes now."""
        if not self.exists() or self.state() == "running":
            return False
        config = filled(config)
        return not self._forbidden(config, changed_keys(self.config(), config))

    def refuse_exchanged(self, config: Mapping[str, Any]) -> None:
        """Check that the run has the configuration of this command, which another may have replaced meanwhile.

        Raises:
            UserError: It has another; the message lists the keys that differ.
        """
        if changes := changed_keys(self.config(), filled(config)):
            raise UserError(conflicts.other_configuration(self.path, config, changes))

    def refuse_change(self, config: Mapping[str, Any], *, certain: bool) -> None:
        """Check that the run, which exists, may take the values of `config`.

        Args:
            config: Plain and resolved.
            certain: Whether forbidden changes are refused even if the run has not begun.

        Raises:
            UserError: It may not; the message lists the keys that differ.
        """
        changes = changed_keys(self.config(), config)
        if not changes:
            return
        if self.state() == "finished":
            raise UserError(conflicts.finished_otherwise(self.path, changes))
        forbidden = self._forbidden(config, changes)
        if forbidden and (certain or self.begun()):
            raise UserError(conflicts.other_configuration(self.path, config, forbidden))
        trained, steps = self._trained_to() or 0, (config.get("trainer") or {}).get("max_steps")
        if steps is not None and trained > steps and self.begun():
            raise UserError(
                f"{self.path} has been trained to step {trained:,} already, so it cannot end at "
                f"trainer.max_steps={steps}: set it to at least {trained}, or start a new attempt (force=true)."
            )

    def _change(self, config: Mapping[str, Any], changes: Mapping[str, tuple[Any, Any]]) -> None:
        """Change the configuration of the run, if that is allowed."""
        # If it was never leased, it may be about to begin.
        self.refuse_change(config, certain=lease.read(self.path) is None)
        with lease.alone(self.path):
            self.refuse_change(config, certain=False)
            kept = [int(match[1]) for path in self.path.iterdir() if (match := FORMER.fullmatch(path.name))]
            former = self.path / f"config-{1 + max(kept, default=0)}.yaml"
            forbidden = self._forbidden(config, changes)  # a run that has not begun may change all the same
            with lease.writing(self.path):
                write_yaml(former, self.config())
                write_yaml(self.path / "config.yaml", conflicts.with_history(config, self._changed(changes)))
                if forbidden:  # the new configuration may have other texts and another vocabulary
                    for name in ("inputs.json", "subwords.model"):
                        (self.path / name).unlink(missing_ok=True)

    def restate_changes(self) -> None:
        """Correct the steps in `resume.changed` if the checkpoints at which keys were changed are damaged since."""
        lines = conflicts.history(config := self.config())
        step = self.newest_checkpoint(sound=True) if lines else None
        if step is not None and (found := conflicts.moved(lines, step)) != lines:
            write_yaml(self.path / "config.yaml", conflicts.with_history(config, found))

    def _changed(self, changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
        """`resume.changed` after `changes`: before its first checkpoint, a run has trained nothing that is kept."""
        if not self.has_checkpoint() and self._trained_to() is None:
            return []
        return conflicts.amended(conflicts.history(self.config()), changes, self.newest_checkpoint(sound=True))[0]

    def _forbidden(self, config: Mapping[str, Any], changes: Mapping[str, tuple[Any, Any]]) -> conflicts.Changes:
        """Those of the `changes` that are not allowed. To take a change back needs no permission."""
        _, back = conflicts.amended(conflicts.history(self.config()), changes, self.newest_checkpoint(sound=True))
        return {key: values for key, values in conflicts.forbidden(config, changes).items() if key not in back}

    def newest_checkpoint(self, *, sound: bool = False) -> int | None:
        """Step of the newest checkpoint of training; a kill may have kept it out of status.json.

        Args:
            sound: Leave out damaged ones, from which the run cannot be continued; this reads whole files.
        """
        paths = {path.stem.removeprefix("step"): path for path in self.checkpoints.glob("step*.ckpt")}
        steps = sorted((int(step) for step in paths if step.isdigit()), reverse=True)
        return next((step for step in steps if not sound or is_sound(paths[str(step)])), None)

    def config(self) -> dict[str, Any]:
        """The frozen configuration. Raises UserError if the file is missing or broken."""
        path = self.path / "config.yaml"
        try:
            config = read_yaml(path)
        except yaml.YAMLError as error:
            raise UserError(f"Cannot read {path}: {yaml_fault(error)}") from error
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot read {path}: {read_fault(error, path)}") from error
        if not isinstance(config, dict):
            raise UserError(f"Cannot read {path}: it does not contain a configuration.")
        return config

    def config_hash(self) -> str:
        """Identity of the run; see `identity.config_hash`."""
        return config_hash(self.config())

    # Status ---------------------------------------------------------------------------------------------------------

    def status(self) -> Status | None:
        """The latest contents of status.json; None before the first. Raises UserError if the file is broken."""
        stored = self._read_json("status.json")
        if stored is None:
            return None
        return Status.parse(stored, self.path / "status.json")

    def set_status(self, state: str, reason: str | None = None, **extra: Any) -> None:
        """Replace status.json. `started`, `step`, `epoch`, `checkpoint`, `command` and `failures` stay unless given.

        `refused=True` marks a failed run that cannot continue with its present inputs or checkpoints.

        Raises:
            ValueError: `state` is not one of STATES.
        """
        if state not in STATES:
            raise ValueError(f"Unknown state {state!r}; valid: {', '.join(STATES)}.")
        old = self._read_json("status.json", tolerant=True) or {}
        if state != "failed":
            old.pop("refused", None)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        fresh = {"state": state, "reason": reason, "updated": now, "pid": os.getpid(), "host": socket.gethostname()}
        fresh["process"] = Process.of().key
        base = {key: value for key, value in asdict(Status(state)).items() if key != "extra"}
        base |= {"started": now, "attempt": self.attempt}
        if state == "finished":
            fresh["ended"] = True  # which stays if it must be tested again
        # Another process that notices the same failure does not count it again.
        if state == "failed" and old.get("state") != "failed":
            fresh["failures"] = int(old.get("failures") or 0) + 1
        write_json(self.path / "status.json", base | old | fresh | extra)

    def declare_failed(
        self, reason: str, over: lease.Record | None, *, before: int, seconds: float = lease.SECONDS
    ) -> bool:
        """Record the failure of a run whose holder can no longer do so, under a lease taken for that moment.

        Args:
            reason: Why it failed.
            over: The lease that was found free.
            before: How often the run had failed when it was started. It may have died before it wrote any status, or
                have recorded this failure itself, which is not counted again.
            seconds: As of `Lease.claim`.

        Returns:
            False, with nothing written, if another process was quicker or has finished the run meanwhile.
        """
        own = lease.Lease.claim(self.path, over, "running", seconds=seconds)
        if own is None:
            return False
        try:
            if self.finished() or self.state() == "pruned":
                return False
            self.set_status("failed", reason, failures=max(self.failures(), before + 1))
        except TakenOverError:
            return False
        finally:
            own.release()
        return True

    def failures(self) -> int:
        """How often the run has failed so far; 0 if status.json cannot be read."""
        return int((self._read_json("status.json", tolerant=True) or {}).get("failures") or 0)

    def state(self) -> str:
        """The state for readers: `running` counts as `interrupted` if the process no longer exists."""
        status = self.status()
        if status is None:
            return "absent"
        return "interrupted" if status.state == "running" and not status.process_alive(self.path) else status.state

    def shown_state(self) -> str:
        """`state`, or `queued` if the run waits in a queue to start or to continue."""
        state = self.state()
        return "queued" if state in ("absent", "interrupted") and lease.waits(self.path) else state

    def copied_from(self) -> str | None:
        """The run that this one is a copy of (`sweep.shares`), also after its result or its status was lost."""
        found = (self._read_json(name, tolerant=True) or {} for name in ("status.json", "result.json"))
        return next((str(copied) for document in found if (copied := document.get("copied"))), None)

    def finished(self) -> bool:
        """Whether the run is finished and has a result; without one, or with a damaged one, it must be tested again.

        Raises:
            UserError: The files are there, but this user may not read them, or the disk cannot.
        """
        if self.state() != "finished":
            return False
        path = self.path / "result.json"
        try:
            result = read_json(path)
            return isinstance(result, dict) and bool(result)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            raise UserError(f"Cannot read {path}: {read_fault(error, path)}.") from error

    def unfinished(self) -> str | None:
        """Why the run counts as unfinished, `is running, not finished`; None if it is finished."""
        if self.finished():
            return None
        state = self.state()
        return "has no result.json, or a damaged one" if state == "finished" else f"is {state}, not finished"

    # Measurements ---------------------------------------------------------------------------------------------------

    def refuse_lost_measurements(self, fingerprint: Any = None) -> None:
        """Check that metrics.jsonl begins with what it contained when a checkpoint was written.

        Args:
            fingerprint: `Measurements.fingerprint` at that time; None: at the latest checkpoint, by status.json, if it
                says so.

        Raises:
            UserError: It does not; the run would continue with a gap in its measurements.
        """
        stored = self._read_json("status.json", tolerant=True) or {}
        self.measurements.refuse_lost(fingerprint or stored.get("measured"))

    def take_log(self) -> None:
        """Replace log.txt by a copy of itself, if this process prints to it.

        A former holder that still prints no longer writes to it.
        """
        prints = [number for number in (1, 2) if _same_file(number, self.log)]
        if not prints:
            return
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            with replaced(self.log) as temporary, self.log.open("rb") as former, temporary.open("xb") as log:
                shutil.copyfileobj(former, log)
        except OSError:  # the disk may have refused to flush the folder that has the copy already: the error goes there
            self._print_to_log(prints)
            raise
        self._print_to_log(prints)

    def _print_to_log(self, descriptors: Sequence[int]) -> None:
        with self.log.open("ab", buffering=0) as log:
            for number in descriptors:
                os.dup2(log.fileno(), number)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Replace result.json by `result` and the hashes of what belongs to it."""
        measured = self.measurements.path.read_bytes() if self.measurements.path.is_file() else None
        write_json(self.path / "result.json", sealed(result, self.config(), measured))

    def result(self) -> dict[str, Any] | None:
        """Scores and costs; None if there are none yet. Raises UserError if the file is broken."""
        return self._read_json("result.json")

    def write_environment(self, environment: Mapping[str, Any], *, trains: bool = True) -> bool:
        """Replace environment.json; return whether the code that trained the run's checkpoints is another one.

        Then its environment is kept as environment-<step>.json.

        Args:
            environment: By `store.environment.environment`.
            trains: There are updates left. Else its `code` stays that of the training.
        """
        former = {"code": "unknown"} | (read_object(self.path / "environment.json") or {})  # it may be lost, or old
        other = former["code"] != environment.get("code")
        step = self.newest_checkpoint(sound=True) if other else None
        kept = self.path / f"environment-{step}.json"
        if step is not None and not trains:
            environment = {**environment, "code": former["code"]}
        elif step is not None and not kept.exists():
            write_json(kept, former)
        elif step is not None and (read_object(kept) or {}).get("code") == environment.get("code"):
            fence.remove(kept)  # the code in between has trained nothing that is kept
        write_json(self.path / "environment.json", dict(environment))
        return step is not None and kept.exists()

    def trained_by(self) -> list[str]:
        """The versions of the project's code that have trained this run, in turn."""
        former = sorted(self.path.glob("environment-*.json"), key=lambda path: (len(path.name), path.name))
        paths = [*former, self.path / "environment.json"]
        return [version(read_object(path) or {}) for path in paths]

    def environment(self) -> dict[str, Any] | None:
        """Commit, versions, hardware; None if not written yet. Raises UserError if the file is broken."""
        return self._read_json("environment.json")

    # Details --------------------------------------------------------------------------------------------------------

    def _read_json(self, name: str, *, tolerant: bool = False) -> dict[str, Any] | None:
        path = self.path / name
        if tolerant:
            return read_object(path)
        try:
            value = read_json(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            advice = "" if isinstance(error, PermissionError) else _advice(name)
            raise UserError(f"Cannot read {path}: {read_fault(error, path)}{advice}.") from error
        if isinstance(value, dict):
            return value
        raise UserError(f"Cannot read {path}: it does not contain a JSON object{_advice(name)}.")


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _advice(name: str) -> str:
    return DELETE_IT if name == "status.json" else ""
