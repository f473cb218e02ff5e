"""Do the tests notice? Puts each bug of `mutations.yaml` into a copy of the tree and runs the tests that should fail.

    python tools/mutations.py --output docs/results/mutations.md     # some 15 minutes; progress on standard error
    python tools/mutations.py --only "a lease is never renewed"

A bug is caught if a named test fails; one that makes the tests hang is caught by their time limit. Tests run in
processes forked from this one, which has imported the packages that take long to import, but none of ours.
"""

import argparse
import compileall
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
BUGS = Path(__file__).with_name("mutations.yaml")
LIMIT = 1800.0
"""Seconds after which tests count as hanging."""
HEAVY = ("torch", "pytorch_lightning", "hydra", "sacrebleu", "scipy.stats", "hypothesis", "pytest", "sentencepiece")


@dataclass(frozen=True)
class Bug:
    """A text and its replacement."""

    what: str
    file: str
    old: str
    new: str
    tests: list[str]

    @property
    def area(self) -> str:
        """The part of the package that contains it: `training`, or `tasks/translation`."""
        parts = Path(self.file).parts[2:-1]
        return "/".join(parts[:2] if parts[0] == "tasks" else parts[:1])


def main() -> int:
    """Run all bugs, or the requested ones; exit code 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WHAT", help="bugs by their descriptions")
    parser.add_argument("--output", type=Path, help="file for the table")
    arguments = parser.parse_args()
    bugs = [Bug(**entry) for entry in yaml.safe_load(BUGS.read_text(encoding="utf-8"))]
    if found := list(faults(bugs)):
        sys.exit("\n".join(found))
    bugs = [bug for bug in bugs if arguments.only is None or bug.what in arguments.only]
    for name in HEAVY:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy(tree)
        rows, passing = [], set[str]()
        for bug in bugs:
            if new := [test for test in bug.tests if test not in passing]:
                code, told, _ = tested(tree, new)
                if code:
                    sys.exit(f"Tests fail even without a bug:\n{told[-4000:]}")
                passing.update(new)
            rows.append(_row(bug, *with_bug(tree, bug)))
    survived = sum(row.endswith("**survived** |") for row in rows)
    heading = f"{len(rows) - survived} of {len(rows)} bugs are caught."
    table = "\n".join([heading, "", "| where | bug | caught by |", "|---|---|---|", *rows])
    print(table)
    if arguments.output:
        arguments.output.write_text(f"{PREFACE}\n{table}\n", encoding="utf-8")
    return 1 if survived else 0


PREFACE = """# Bugs that the tests notice

`python tools/mutations.py --output docs/results/mutations.md` puts each bug of `tools/mutations.yaml` into a copy of
the tree, one at a time, and runs the tests that should fail. The bugs were written down before it was known which of
them are caught.
"""


def faults(bugs: Sequence[Bug]) -> Iterator[str]:
    """Bugs whose place is not found exactly once, or whose tests no longer exist."""
    for bug in bugs:
        count = (ROOT / bug.file).read_text(encoding="utf-8").count(bug.old)
        if count != 1:
            yield f"{bug.what}: {bug.old!r} is in {bug.file} {count} times, not once; write the bug again."
        for test in bug.tests:
            file, _, name = test.partition("::")
            if not (ROOT / file).is_file() or f"def {name}" not in (ROOT / file).read_text(encoding="utf-8"):
                yield f"{bug.what}: there is no {test}."


def copy(tree: Path) -> None:
    """Copy the files that git tracks or would add, compiled so that a changed file is always noticed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    hashed = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(tree / "src", quiet=2, invalidation_mode=hashed)


def with_bug(tree: Path, bug: Bug) -> tuple[int, str, float]:
    """The tests of a bug while it is in the tree."""
    path = tree / bug.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(sound.replace(bug.old, bug.new), encoding="utf-8")
    try:
        return tested(tree, bug.tests)
    finally:
        path.write_text(sound, encoding="utf-8")


def tested(tree: Path, tests: Sequence[str]) -> tuple[int, str, float]:
    """Run tests in their own process: pytest's exit code, its output, and the seconds."""
    began, log = time.monotonic(), tree / "mutations.log"
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.setsid()
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
            os.dup2(1, 2)
            os.chdir(tree)
            os.environ |= {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
            sys.dont_write_bytecode = True
            sys.path = [str(tree / "src"), *(path for path in sys.path if path != str(ROOT / "src"))]
            import pytest

            options = ["-m", "not exhaustive", "-o", "timeout=900"]  # correct code must pass on a busy machine, too
            code = int(pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", *options, *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() - began > LIMIT:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.1)
    code = os.waitstatus_to_exitcode(ended[1])
    return code, log.read_text(encoding="utf-8", errors="replace"), time.monotonic() - began


def _row(bug: Bug, code: int, told: str, seconds: float) -> str:
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
    if code == 0:
        by = "**survived**"
    elif code == -signal.SIGKILL:
        by = f"the time limit of {LIMIT:.0f} s"
    elif code == 1 and failed is not None:
        by = f"`{failed[1].removeprefix('tests/').partition('[')[0]}`"
    else:
        raise RuntimeError(f"{bug.what}: pytest ended with {code}, which says nothing:\n{told[-4000:]}")
    print(f"{seconds:5.1f} s  {bug.what}: {by}", file=sys.stderr, flush=True)
    return f"| {bug.area} | {bug.what} | {by} |"


if __name__ == "__main__":
    sys.exit(main())
