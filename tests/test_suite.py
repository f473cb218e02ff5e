"""The suite itself: continuous integration cannot pass when something is missing."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest

CASES = """
import pytest
def test_runs(): pass
@pytest.mark.skip(reason="no GPU")
def test_of_a_gpu(): pass
@pytest.mark.skip(reason="Slurm is not installed")
def test_of_slurm(): pass
def test_of_a_browser(): pytest.importorskip("no_such_browser")
@pytest.mark.xfail(reason="known")
def test_known(): assert False
"""
WHOLE_FILE = "import pytest\npytest.importorskip('no_such_library')\ndef test_runs(): pass\n"

TALKS = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.getppid(), os.environ["WORD"], sys.stdin.read(), "torch" in sys.modules)
print("a fault", file=sys.stderr)
sys.exit(7)
"""
WAITS = "import time; print('here', flush=True); time.sleep(60)"


@pytest.mark.slow
def test_a_command_that_a_test_starts_is_a_new_process_in_all_but_its_imports(tmp_path: Path) -> None:
    (tmp_path / "variations").mkdir()  # as next to the scripts in src/
    script = tmp_path / "script.py"
    script.write_text(TALKS)
    line = [sys.executable, str(script), "a", "b c"]
    as_it_was = {name: value for name, value in os.environ.items() if not name.startswith(forked.AT_THE_START)}
    words = {**as_it_was, **forked.AT_START, "WORD": "said"}  # earlier tests in this process may have set variables
    done = subprocess.run(line, cwd=tmp_path, env=words, input="typed", capture_output=True, text=True, check=False)
    quick = sys.platform.startswith("linux") and os.environ.get("VARIATIONS_TEST_FORK") != "0"
    assert done.stdout == f"['a', 'b c'] {tmp_path} {os.getpid()} said typed {quick}\n"
    assert (done.returncode, done.stderr) == (7, "a fault\n")

    code = f"import variations\n{TALKS}".replace("sys.modules", "sys . modules")  # code that inspects is not forked
    words["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")
    line_of_code = [sys.executable, "-c", code, "a", "b c"]
    said = subprocess.run(
        line_of_code, cwd=tmp_path, env=words, input="typed", capture_output=True, text=True, check=False
    )
    assert (said.stdout, said.returncode, said.stderr) == (done.stdout, 7, "a fault\n")

    script.write_text(WAITS)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ci", "content", "code", "told"),
    [
        ("true", CASES, 1, "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error"),
        ("true", WHOLE_FILE, 2, "1 error"),
        ("", CASES + WHOLE_FILE.removeprefix("import pytest"), 5, "1 skipped"),
    ],
    ids=["tests", "a file", "elsewhere"],
)
def test_a_skip_whose_reason_is_not_listed_fails_in_continuous_integration(
    ci: str, content: str, code: int, told: str, tmp_path: Path
) -> None:
    tests = Path(__file__).parent
    shutil.copy(tests / "conftest.py", tmp_path)
    (tmp_path / "test_cases.py").write_text(content)
    environment = os.environ | {
        "CI": ci,
        "PYTHONPATH": os.pathsep.join((str(tests / "support"), str(tests.parent / "src"))),
    }
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]) == (code, told), done.stdout
