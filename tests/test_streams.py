"""Standard streams that are closed, full, in another encoding or without a reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from variations.configuration.tasks import named
from variations.training.progress import RunProgress

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """
import sys
from variations.system import streams
from variations.system.errors import UserError
streams.prepare(work_goes_on={goes_on})
try:
    sys.stdout.write("κ é\\n" * 20_000)
    sys.stderr.write("α\\n" * 20_000)
    sys.stdout.flush()
    open("done", "x").write("work")
    assert sys.stdin.read() == ""
except UserError as error:
    sys.exit(str(error))
"""


def result(redirections: str, cwd: Path, *, goes_on: bool, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a shell with these redirections; the exit code is the script's, not a pipe's."""
    script = cwd / "script.py"
    script.write_text(SCRIPT.format(goes_on=goes_on), encoding="utf-8")
    line = ["bash", "-o", "pipefail", "-c", f'"$0" script.py {redirections}', sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, env=environment, timeout=60, check=False)


@pytest.mark.parametrize(
    ("redirections", "code", "told"),
    [
        ("</dev/null >&-", 1, "Standard output cannot be written: Bad file descriptor."),
        ("</dev/null >/dev/full", 1, "Standard output cannot be written: No space left on device."),
        ("</dev/null | true", 141, ""),
    ],
)
def test_a_command_whose_output_is_lost_fails(redirections: str, code: int, told: str, tmp_path: Path) -> None:
    found = result(redirections, tmp_path, goes_on=False)
    assert found.returncode == code
    assert "Traceback" not in found.stderr
    assert told in found.stderr.splitlines() or not told
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", "</dev/null 2>&1 | true", "</dev/null 2>/dev/full | true"])
def test_work_goes_on_without_anybody_who_listens(redirections: str, tmp_path: Path) -> None:
    assert result(redirections, tmp_path, goes_on=True).returncode == 0
    assert (tmp_path / "done").read_text() == "work"


def test_characters_that_an_encoding_lacks_are_written_out(tmp_path: Path) -> None:
    found = result("</dev/null | iconv --from-code latin1", tmp_path, goes_on=False, PYTHONIOENCODING="latin-1")
    assert found.returncode == 0
    assert found.stdout.startswith("\\u03ba é\n")
    assert found.stderr.startswith("\\u03b1\n")


@pytest.mark.slow
def test_a_folder_that_was_deleted_is_one_sentence(tmp_path: Path) -> None:
    line = f'mkdir gone && cd gone && rmdir ../gone && "$0" {ROOT / "src" / "table.py"} sweep=quickstart'
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(
        ["bash", "-c", line, sys.executable], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60
    )
    assert found.returncode == 2
    assert found.stderr == (
        "error: The current folder has been deleted: change to another one (cd) and repeat the command.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["a key", "the current folder"])
def test_a_path_that_is_not_utf_8_is_refused_before_anything_is_written(where: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    words = [f"data.root='{folder}'"] if where == "a key" else []
    found = subprocess.run(
        [sys.executable, ROOT / "src" / "train.py", f"runs={tmp_path / 'runs'}", "logger=none", *words],
        cwd=folder if where == "the current folder" else tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 2
    assert "caf\\udce9" in found.stderr and "not UTF-8" in found.stderr and "Traceback" not in found.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", [["src/train.py"], ["src/table.py", "--help"]])
def test_a_python_without_the_packages_is_one_sentence(command: list[str]) -> None:
    root = Path(__file__).parents[1]
    python = [sys.executable, "-S"]  # without site-packages
    done = subprocess.run(
        [*python, *command],
        cwd=root,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and "`make setup`" in done.stderr and done.stderr.count("\n") == 1


def test_lines_of_progress_are_whole_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    task = named("translation")
    shown = RunProgress("a-run-with-a-name-of-some-length seed 1", task)
    shown.metrics(20, {f"train/{task.losses[0]}": 7.5, task.monitor: 7.25, "dev/ppl": 1970.69, "dev/bleu": 0.6})
    assert capsys.readouterr().err == (
        "a-run-with-a-name-of-some-length seed 1 step 20 · loss 7.500 · dev ppl 1970.69 · dev BLEU 0.6\n"
    )
