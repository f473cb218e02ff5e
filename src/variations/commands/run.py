"""One run, from a frozen configuration to scores: read it from top to bottom.

`execute` finds the run's folder and freezes the configuration in it; `run` does the work of the folder and needs
nothing but the folder, so that any launcher can do it on any machine that sees the folder:
`python -m variations.commands.run FOLDER`.
"""

import logging
import multiprocessing
import os
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from variations.configuration import surroundings
from variations.configuration.compose import load, to_dict
from variations.configuration.places import SINGLE, same_line
from variations.configuration.schema import RunConfig
from variations.store import checksums, fence, ledger, naming, own_code
from variations.store.atomic import disk_refusals_told
from variations.store.contents import refuse_damaged, score
from variations.store.lease import hold
from variations.store.ledger import RunFolder
from variations.store.process_identity import Process
from variations.store.row_files import fingerprint_of
from variations.system import processes, streams
from variations.system.errors import (
    ConfigError,
    ExitCode,
    Interrupted,
    NotContinuedError,
    Pruned,
    TakenOverError,
    UserError,
)
from variations.system.exceptions import raised, short_traceback

_EXECUTING = threading.Lock()
STOPPED = "stopped; the same command continues the run"


def execute(config: RunConfig) -> Path:
    """Train, test and score what `config` describes, unless that has been done; the last line printed is the folder.

    Raises:
        UserError: The folder holds a run of another configuration, or the run fails for a reason the user can mend.
        Interrupted: A signal asked the run to stop; the same command continues it.
    """
    if not _EXECUTING.acquire(blocking=False):
        raise UserError(
            "This process is training another run, and they would share their random numbers: wait for its end, or "
            "train in several processes, as --multirun does."
        )
    try:
        return _execute(config)
    finally:
        _EXECUTING.release()


def _execute(config: RunConfig) -> Path:
    if found := surroundings.faults(config):
        raise ConfigError(found)
    processes.node_rank(config.trainer.nodes)  # refuses a wrong one before the folder is made
    if config.variation.row:
        config = replace(config, variation=replace(config.variation, sha256=fingerprint_of(to_dict(config))))
    home = naming.run_folder(config)
    folder = RunFolder(ledger.workplace(home, config))
    new = not folder.path.exists()
    if not folder.finished():
        own_code.refuse_edited(to_dict(config))
        if folder.idle_run_of(to_dict(config)):
            own_code.refuse_to_continue(config, folder)  # before its files are written; again under the lease
    folder.create(to_dict(config))  # refuses if the folder holds another configuration
    if folder.finished():
        refuse_damaged(folder.path, folder.result() or {}, config.task, folder.config())
        print("This run is finished already; force=true makes a new attempt beside it.")
        for warning in own_code.changed_inputs(config, folder):
            print(f"warning: {warning}", file=sys.stderr)
    else:
        run(folder.path, new=new, wanted=to_dict(config))
    if processes.global_rank() == 0 and (told := _told_score(config, folder)):
        print(told, file=sys.stderr)
    print(folder.path)
    return folder.path


def _told_score(config: RunConfig, folder: RunFolder) -> str:
    """The score of the test, and for a single run the command that prints the others; empty where there is none."""
    try:
        found = score(config, folder.result() or {})
    except UserError:
        return ""
    if found is None:
        return ""
    measure, value = found
    told = f"{measure.label} {measure.text(value)}"
    if config.sweep.name is not None:
        return told
    from variations.sweeping.overview import table_line

    return f"{told} · all single runs: {table_line([f'sweep.name={SINGLE}'], config.runs)}"


def run(
    path: Path, *, key: str | None = None, new: bool = False, wanted: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Execute the run of a folder: train from its last checkpoint, test, and write `result.json`.

    Args:
        path: The run's folder.
        key: A sweep's pool has started this process under this key: a run that another one has finished meanwhile is
            left alone.
        new: The folder was made for this run: it is removed again if the run cannot begin, by a fault of the user's.
        wanted: The configuration that this command has stored there; None: whatever the folder has.

    Returns:
        The result; empty on ranks other than 0.

    Raises:
        InUseError: Another process works on it.
        UserError: The run cannot continue, or another command has given the folder another configuration.
    """
    queued = key is not None
    folder = RunFolder.open(path)
    config = load(folder.path / "config.yaml")
    if processes.is_rank():
        fence.join(folder.path, processes.lease_name())
        return _work(config, folder)
    if processes.node_rank(config.trainer.nodes) > 0:  # the first machine holds the lease
        _run_in_processes(config, folder)
        return {}
    with (
        hold(folder.path, seconds=config.sweep.lease_seconds, key=key) as lease,
        _without_trace(folder) if new else nullcontext(),
        disk_refusals_told(),
    ):
        folder.take_log()
        config = load(folder.path / "config.yaml")  # until now another command may have changed it
        if wanted is not None:
            folder.refuse_exchanged(wanted)
        if folder.finished() or (queued and folder.state() == "pruned"):  # by the previous holder of the lease
            print("Already finished: there is nothing to do.")
            return folder.result() or {}
        _refuse_what_has_changed(config, folder, told=queued)
        folder.restate_changes()
        if config.trainer.devices * config.trainer.nodes == 1:
            result = _work(config, folder)
        else:
            _run_in_processes(config, folder, lease.record.name)
            result = folder.result() or {}
        if queued:
            print(f"== {_now()}: {folder.state()}", flush=True)
        return result


@contextmanager
def _without_trace(folder: RunFolder) -> Iterator[None]:
    """Remove the folder of a run that found a fault in its configuration or data before it began."""
    try:
        yield
    except UserError as error:
        if error.exit_code == ExitCode.USAGE and not folder.begun():
            shutil.rmtree(folder.path, ignore_errors=True)
            with suppress(OSError):  # as far as they are empty
                folder.path.parent.rmdir()
                folder.path.parent.parent.rmdir()
        raise


def _refuse_what_has_changed(config: RunConfig, folder: RunFolder, *, told: bool) -> None:
    """Check that a run continues with its own inputs and checkpoints; writes nothing, unless a sweep is `told`."""
    try:
        own_code.refuse_to_continue(config, folder)
    except UserError as error:
        if told:
            _set_failed(folder, error)
        raise


def _work(config: RunConfig, folder: RunFolder) -> dict[str, Any]:
    from variations.training.interrupt import Interrupt

    if processes.global_rank() > 0:
        config.trainer.progress = False
        logging.getLogger("variations").setLevel(logging.ERROR)  # rank 0 warns
        with Interrupt() as interrupt, suppress(Pruned), _none_left_behind():  # rank 0 reports it
            _train(config, folder, interrupt)
        return {}
    with Interrupt() as interrupt, _none_left_behind():
        _forget_last_attempt(folder)
        folder.set_status("running", command=same_line(sys.argv))
        try:
            with disk_refusals_told():
                result = _train_and_test(config, folder, interrupt)
                folder.write_result(result)
        except TakenOverError:
            raise  # the folder is another's
        except Pruned as stop:
            folder.set_status("pruned", str(stop))
            return {}
        except KeyboardInterrupt as stop:
            folder.set_status("interrupted", str(stop) or STOPPED)
            raise
        except BaseException as error:
            _set_failed(folder, error)
            raise
        finally:
            folder.measurements.close()
        folder.set_status("finished")
    return result


@contextmanager
def _none_left_behind() -> Iterator[None]:
    """After a failure, end the loader processes, which ignore the signal that this one sends them when it exits."""
    others = {*multiprocessing.active_children()}
    try:
        yield
    except BaseException:
        for child in {*multiprocessing.active_children()} - others:
            if child.daemon:
                child.kill()
        raise


def _forget_last_attempt(folder: RunFolder) -> None:
    """Remove what a kill during a write has left."""
    for place in (folder.path, folder.hypotheses, folder.checkpoints):
        checksums.sweep(place)


def _set_failed(folder: RunFolder, error: BaseException) -> None:
    reason = str(error).strip()
    if not (isinstance(error, UserError) and reason):
        reason = raised(error, [str(file) for file in own_code.modules(folder.config()).values()])
    processes.write_reason(folder.path, reason)
    try:
        refused = {"refused": True} if isinstance(error, NotContinuedError) else {}
        folder.set_status("failed", reason, **refused)
    except OSError as fault:  # a full disk: the first error matters, and readers see that the process has ended
        print(f"Cannot write {folder.path / 'status.json'}: {fault}", file=sys.stderr)


def _train_and_test(config: RunConfig, folder: RunFolder, interrupt: Any) -> dict[str, Any]:
    with interrupt.postponed():
        from variations.training import tracking
        from variations.training.outcome import outcome
        from variations.training.performance import as_in_a_new_process

    own_code.refuse_edited(to_dict(config))  # in a process of its own, the first look at them before they are imported
    code: int = ExitCode.FAILED
    try:
        with as_in_a_new_process():
            result = outcome(config, folder, _train(config, folder, interrupt))
        code = ExitCode.OK
    except Interrupted as stop:
        code = stop.exit_code
        raise
    except Pruned:  # neither a failure nor a result
        code = ExitCode.OK
        raise
    finally:
        tracking.close(code)
    return result


def _train(config: RunConfig, folder: RunFolder, interrupt: Any) -> Any:
    with interrupt.postponed():
        from variations.searching.pruning import Pruning, reports
        from variations.training.fit import fit

    def callbacks(loop: Any, experiment: Any) -> list[Any]:
        return [Pruning(config, loop, experiment.dev_scores)] if reports(config) else []

    return fit(config, folder, interrupt, callbacks)


def _run_in_processes(config: RunConfig, folder: RunFolder, lease: str = "0") -> None:
    """Start `run` once for each device; `lease` is the name of the one that is held for them."""
    first = processes.node_rank(config.trainer.nodes) == 0  # whose rank 0 writes the result
    if first:
        processes.forget_reason(folder.path)
    code = processes.run_ranks(folder.path, config.trainer.devices, config.trainer.nodes, lease)
    if code in (ExitCode.INTERRUPTED, ExitCode.PREEMPTED, ExitCode.TERMINATED):
        status = folder.status()
        if first and status is not None and status.state == "running":  # the first process of all did not answer
            folder.set_status("interrupted", STOPPED)
        raise Interrupted(signal.Signals(code - 128))
    if code or (first and not folder.finished() and folder.state() != "pruned"):
        failure: UserError = processes.failure(folder.path, code)
        if code == ExitCode.USAGE:  # the input is wrong, as on one device, and no sweep tries the run again
            failure = UserError(processes.reason_of(folder.path, code))
        if first or code != ExitCode.USAGE:  # after wrong input, the first machine may have removed a new folder
            folder.set_status("failed", str(failure))
        raise failure


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _begin_log(path: Path) -> None:
    """Head this process's part of the log, and see whether the machine has what the run needs."""
    print(f"== {_now()}: process {os.getpid()} on {socket.gethostname()}", flush=True)
    if found := surroundings.faults(load(path / "config.yaml")):
        raise ConfigError(found)


def main() -> int:
    """`python -m variations.commands.run FOLDER [KEY]`: how a pool starts a run, and a run its ranks.

    KEY is the pool's; without it, the pool identifies the run by its process.
    """
    processes.die_with_parent()
    streams.prepare(work_goes_on=True)
    path = Path(sys.argv[1])
    try:
        if not processes.is_rank():
            _begin_log(path)
        run(path, key=sys.argv[2] if len(sys.argv) > 2 else Process.of().key)
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        return getattr(stop, "exit_code", ExitCode.INTERRUPTED)
    except UserError as error:
        recorded = processes.write_reason(path, str(error))
        if not (recorded and error.exit_code == ExitCode.USAGE):  # which the process that started the ranks tells once
            print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - whatever it is, the other ranks must be told
        processes.write_reason(path, f"{type(error).__name__}: {error}")
        lost = processes.is_rank() and re.search(r"Connection (closed|reset) by peer", str(error))
        told = f"rank {processes.global_rank()} lost its connection to another process of the run."
        print(told if lost else short_traceback(error), file=sys.stderr)
        return ExitCode.FAILED
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
