"""One run, from a frozen configuration to scores: read it from top to bottom.

`execute` finds the run's folder and freezes the configuration in it; `run` does the work of the folder and needs
nothing but the folder, so that any launcher, on any machine that sees it, can do it: `python -m variations.run FOLDER`.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variations import naming
from variations.compose import load, to_dict
from variations.config import Config
from variations.errors import ExitCode, RunFailedError, UserError
from variations.experiments import ledger
from variations.experiments.ledger import RunFolder

if TYPE_CHECKING:
    from variations.data.subwords import Subwords
    from variations.models import Transformer

log = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """A signal stopped the run after it had saved itself."""


def execute(config: Config) -> Path:
    """Train, test and score what `config` describes, unless that has been done; the last line printed is the folder.

    Raises:
        UserError: The folder holds a run of another configuration, or the run fails for a reason the user can mend.
        Interrupted: A signal asked the run to stop; the same command continues it.
    """
    home = naming.run_folder(config)
    done = ledger.latest(home)
    if done is not None and not config.force and done.state() == "finished":
        done.create(to_dict(config))  # refuses if the configuration is another one
        print("This run is finished already; force=true makes a new attempt beside it.")
        print(done.path)
        return done.path
    finished = done is not None and done.state() == "finished"
    folder = RunFolder(ledger.next_attempt(home) if config.force and finished else done.path if done else home)
    folder.create(to_dict(config))
    if config.trainer.devices * config.trainer.nodes > 1:
        _run_in_processes(folder.path)
    else:
        run(folder.path)
    print(folder.path)
    return folder.path


def run(path: Path) -> dict[str, Any]:
    """Do the work of a run's folder: train from where it stands, test, and write `result.json`.

    Returns:
        The result; empty on ranks other than 0.
    """
    from variations.training.interrupt import Interrupt

    folder = RunFolder.open(path)
    config = load(folder.path / "config.yaml")
    if int(os.environ.get("LOCAL_RANK", 0)) > 0:
        with Interrupt() as interrupt:
            _train(config, folder, interrupt)
        return {}
    with folder.lock(), Interrupt() as interrupt:
        folder.set_status("running", command=" ".join(sys.argv))
        try:
            result = _train_and_test(config, folder, interrupt)
        except KeyboardInterrupt:
            folder.set_status("interrupted", "stopped by a signal; the same command continues the run")
            raise
        except BaseException as error:
            folder.set_status("failed", str(error).strip() or type(error).__name__)
            raise
        folder.write_result(result)
        folder.set_status("finished")
    return result


def _train_and_test(config: Config, folder: RunFolder, interrupt: Any) -> dict[str, Any]:
    from variations.tracking import close_loggers
    from variations.training.outcome import outcome

    try:
        trained = _train(config, folder, interrupt)
        if trained.stopped == "interrupted":
            raise Interrupted(f"Stopped at step {trained.step}; the same command continues from there.")
        return outcome(config, folder, trained)
    finally:
        close_loggers()


def _train(config: Config, folder: RunFolder, interrupt: Any) -> Any:
    from variations.training.fit import fit

    return fit(config, folder, interrupt)


def _run_in_processes(path: Path) -> None:
    """Start `run` as a module of its own, which Lightning can start again once for each device."""
    source = str(Path(__file__).resolve().parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-m", "variations.run", str(path)], env=environment, check=False)
    if done.returncode == ExitCode.INTERRUPTED:
        raise Interrupted("Stopped by a signal; the same command continues the run.")
    if done.returncode:
        status = RunFolder(path).status()
        reason = status.reason if status else None
        raise RunFailedError(f"the run in {path} failed: {reason or f'its process ended with code {done.returncode}'}.")


def load_model(path: Path) -> "tuple[Transformer, Subwords, Config]":
    """The trained network of a run as it was tested, its vocabulary and its configuration.

    Raises:
        UserError: There is no such run, it has no checkpoint, or its vocabulary is gone.
    """
    from variations.data.subwords import Subwords
    from variations.models import build
    from variations.training.outcome import final_weights

    folder = RunFolder.open(path)
    config = load(folder.path / "config.yaml")
    vocabulary = folder.path / "subwords.model"
    if not vocabulary.exists():
        raise UserError(f"{path} has no subwords.model: the run has not begun to train.")
    subwords = Subwords(vocabulary, lowercase=config.data.lowercase)
    model = build(config, subwords.size)
    model.load_state_dict(final_weights(config, folder)[0])
    return model.eval(), subwords, config


def main() -> int:
    """`python -m variations.run FOLDER`."""
    try:
        run(Path(sys.argv[1]))
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        return ExitCode.INTERRUPTED
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
