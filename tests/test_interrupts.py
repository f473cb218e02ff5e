"""Ctrl-C while a command starts, checks its configuration, or ends: one sentence that tells how to continue."""

import sys
from pathlib import Path

import pytest
from command_lines import run
from omegaconf.errors import OmegaConfBaseException

from variations.commands.cli import command
from variations.commands.console import main, start
from variations.configuration.compose import compose_node
from variations.tasks.translation.config import TranslationConfig

pytestmark = pytest.mark.usefixtures("restored_signals")


@pytest.mark.parametrize("sweep", ["quickstart", "babi_memn2n_1k"])  # the second gets the task of its rows
def test_ctrl_c_while_rows_are_composed_tells_how_to_continue(
    sweep: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("variations.commands.cli.preflight", interrupted)
    monkeypatch.setattr(sys, "argv", ["src/train.py", "--multirun", f"sweep={sweep}"])
    with pytest.raises(SystemExit) as stop:
        command(lambda config: None, schema=TranslationConfig, config_name="train", multirun=True)()
    assert stop.value.code == 130
    assert capsys.readouterr().err == (
        f"\nInterrupted. To continue, run the same command again:\n  python src/train.py --multirun sweep={sweep}\n"
    )


def test_ctrl_c_during_the_imports_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    monkeypatch.setattr(sys, "argv", ["src/table.py", "sweep=quickstart"])
    with pytest.raises(SystemExit) as stop:
        start("table")
    assert stop.value.code == 130
    told = "\nInterrupted. To start anew, run the same command again:\n  python src/table.py sweep=quickstart\n"
    assert capsys.readouterr().err == told


INTERRUPTED = """
import atexit, os, signal, sys, time, types
from variations.commands.console import start


def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)


class Ending:
    __del__ = interrupt


def main():
    {main}


sys.modules["variations.commands.fake"] = types.SimpleNamespace(main=main)
start("fake")
"""


ANEW = "\nInterrupted. To start anew, run the same command again:\n  python verb.py\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("main", "code", "told"),
    [
        ("interrupt()", 130, ANEW),
        ("Ending(); time.sleep(20)", 130, ANEW),  # Python drops what a destructor raises
        ("sys.unraisablehook(types.SimpleNamespace(exc_type=KeyboardInterrupt)); time.sleep(20)", 130, ANEW),
        ("try: interrupt()\n    finally: None.missing", 130, ANEW),  # a library that was half-way
        ("atexit.register(interrupt)", 130, "\nInterrupted.\n"),
        ("sys.last = Ending()", 0, ""),  # destroyed with the interpreter
    ],
    ids=["in the verb", "in a destructor", "dropped", "in a library", "at the end", "in the last moment"],
)
def test_ctrl_c_at_any_time_leaves_no_traceback(main: str, code: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "verb.py").write_text(INTERRUPTED.replace("{main}", main))
    done = run(Path("verb.py"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, told)


def test_ctrl_c_while_omegaconf_composes_is_no_fault_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise OmegaConfBaseException("half-way")

    monkeypatch.setattr("variations.configuration.hydra_door.compose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compose_node(["seed=12345"])


def test_ctrl_c_tells_the_form_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("variations.commands.cli.preflight", interrupted)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/variations", "train", "--multirun", "name='a b'"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.endswith("\n  variations train --multirun 'name='\"'\"'a b'\"'\"''\n")
