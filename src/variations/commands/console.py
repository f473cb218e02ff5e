"""The console command: `variations VERB …`, for each verb in `src/`."""

import atexit
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from variations.configuration.places import PROGRAM, same_line
from variations.system.errors import ExitCode, by_ctrl_c

VERBS = {
    "train": "train, test and score one run, or a whole sweep",
    "new": "write a sweep of your own, with rows to fill in",
    "plan": "show what a launch would train and cost, without training",
    "table": "print a sweep's table, published figures beside measured ones",
    "figures": "draw figures of stored runs, and attention maps",
    "dashboard": "compare runs in the browser",
    "score": "score stored hypotheses",
    "translate": "translate standard input with a trained run",
    "record": "copy a sweep's finished runs in a compact form, for publication",
    "claims": "judge the claims of the papers by recorded runs",
    "complexity": "measure Table 1 of Vaswani et al. 2017 on this machine",
    "wandb_report": "save a workspace and a report of a sweep in Weights & Biases",
}


def main() -> None:
    """Run the verb that the first word names; without one, list all verbs."""
    verb, *rest = sys.argv[1:] or ["--help"]
    if verb in ("--help", "-h", "help"):
        sys.stdout.write(overview())
    elif verb in ("--version", "-V"):
        from variations import __version__

        sys.stdout.write(f"{PROGRAM} {__version__}\n")
    elif verb in VERBS:
        sys.argv = [f"{PROGRAM} {verb}", *rest]
        start(verb)
    else:
        sys.stderr.write(f"error: {verb}: there is no such verb.{hint(verb)} The verbs are {', '.join(VERBS)}.\n")
        sys.exit(ExitCode.USAGE)


def start(verb: str) -> None:
    """Run a verb. Ctrl-C ends it without a traceback at any time, from its imports to the end of the interpreter."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the last of all: nothing is left to interrupt
    sys.unraisablehook = _unraised
    with told_when_interrupted(continues=verb == "train"):
        try:
            importlib.import_module(f"variations.commands.{verb}").main()
        finally:
            signal.signal(signal.SIGINT, _at_the_end)


@contextmanager
def told_when_interrupted(*, continues: bool) -> Iterator[None]:
    """Repeat the command after Ctrl-C, which may come while rows are still being composed.

    Args:
        continues: Whether the same command goes on with the work; else it starts anew.
    """
    typed = list(sys.argv)  # which the command may complete
    try:
        yield
    except (KeyboardInterrupt, Exception) as stop:
        if not by_ctrl_c(stop):
            raise
        purpose = "continue" if continues else "start anew"
        sys.stderr.write(f"\nInterrupted. To {purpose}, run the same command again:\n  {same_line(typed)}\n")
        sys.exit(getattr(stop, "exit_code", ExitCode.INTERRUPTED))


def _at_the_end(number: int, frame: FrameType | None) -> NoReturn:
    """Handle Ctrl-C while threads end and files are closed, where an exception would be printed or lost."""
    with suppress(OSError):
        os.write(2, b"\nInterrupted.\n")
    os._exit(ExitCode.INTERRUPTED)


def _unraised(lost: Any) -> None:
    """Raise Ctrl-C again a moment later if it came where Python drops exceptions, as in a destructor."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, os.kill, [os.getpid(), signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def hint(word: str) -> str:
    """What was probably meant by a word that is not a verb."""
    from variations.configuration.suggestions import did_you_mean  # which imports Hydra

    if near := did_you_mean(word.removeprefix("src/").removesuffix(".py"), list(VERBS)):
        return near
    return f" Did you mean '{PROGRAM} train {word}'?" if "=" in word or word.startswith("-") else ""


def overview() -> str:
    """The text of `variations --help`."""
    verbs = [f"  {verb:<13} {text}" for verb, text in VERBS.items()]
    return "\n".join(
        [
            "Ablations of sequence-to-sequence models, published figures beside measured ones.",
            "",
            f"Usage: {PROGRAM} VERB [GROUP=OPTION | KEY=VALUE] ...",
            "",
            "Verbs:",
            *verbs,
            "",
            f"{PROGRAM} VERB --help describes a verb; {PROGRAM} --version prints the version.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
