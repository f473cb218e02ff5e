"""Shared test setup: one thread per process, fixed seeds, no account, no file outside a temporary folder.

The environment is set when this file is imported, before anything imports torch or W&B, so that processes started by a
test inherit it. Nothing heavy is imported here, so tests of the torch-free parts start quickly.
"""

import gc
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Several test processes share the cores; one thread each also keeps sums identical whatever else is running.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", MPLBACKEND="Agg")
# An account, forced colours or an enclosing cluster job would change the behaviour of the code under test.
for _variable in [name for name in os.environ if name.startswith("SLURM_")]:
    del os.environ[_variable]
for _variable in ("WANDB_API_KEY", "FORCE_COLOR", "CLICOLOR_FORCE", "HYDRA_FULL_ERROR"):
    os.environ.pop(_variable, None)

# A shell that starts the suite in the background makes it and its child processes ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test cuts the power (those that simulate it record the calls), so nothing has to wait for the disk. Commands that
# are not forked (tests/support/forked.py) do, such as those of `make torture`.
os.fsync = lambda _: None

# Generated examples are deterministic, and a temporarily slow machine must not fail a test.
settings.register_profile("variations", deadline=None, derandomize=True)
settings.load_profile("variations")


pytest_plugins = ["forked", "command_lines", "stored_runs", "loopback"]
"""From tests/support: fast-starting commands, command lines, fabricated run stores and a misbehaving web server."""

LONGEST = (
    *("test_slurm.py", "test_together.py", "test_drill.py"),  # Slurm's and Ray's wait more than they compute: apart
    *("test_wandb_runs.py", "test_ray.py", "test_pages_run.py", "test_resume.py", "test_plan.py", "test_torture.py"),
    *("test_line_task.py", "test_views.py", "test_results.py", "test_ddp.py", "test_training.py"),
    *("test_wheel.py", "test_golden_path.py", "test_learns.py", "test_no_waiting.py", "test_search.py"),
)
"""Files that take longest, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers, run the longest files first so that no worker is left alone with one."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        rank = {name: place for place, name in enumerate(LONGEST)}
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: (rank.get(item.path.name, len(rank)), -slow[item.path], -sizes[item.path]))


def pytest_collection_finish() -> None:
    """Spare what is imported by now from garbage collection: of torch and the rest, one takes half a second."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Undo it, so that libraries can release what they check for leaks when the process ends."""
    gc.unfreeze()


NOT_HERE = re.compile(
    "|".join(
        (
            "no GPU|this process has a GPU|this process runs the kernels itself",  # other hardware, or a child process
            "VARIATIONS_TEST_DATA|VARIATIONS_BABI|^PTB=|no local copy of|no specification at",  # third-party texts
            "^EVALB=|pdflatex is not installed",  # third-party programs
            "root may read everything|^one core:|a small tmpfs|the tests fork",  # limits of this machine
            "^no branches$|^long sequences take torch's kernel in both$",  # meaningless combinations
        )
    )
)
"""Reasons for which continuous integration may skip a test. Everything else must be available: see .ci/run."""


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure where it would go unnoticed."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not NOT_HERE.search(reason.removeprefix("Skipped: ")):
        report.outcome = "failed"
        report.longrepr = (
            f"{reason}: in continuous integration this must run, or stand on the list in tests/conftest.py"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In continuous integration, fail a test that is skipped for an unlisted reason."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """In continuous integration, fail a file that is skipped for an unlisted reason."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture(scope="session", autouse=True)
def private_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide a folder for caches and settings, shared only by the processes of this test session."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker's folder is inside the session's
        folder = folder.parent
    variables = {
        "VARIATIONS_CACHE": folder / "cache",
        "XDG_CACHE_HOME": folder / "xdg-cache",
        "XDG_CONFIG_HOME": folder / "xdg-config",
        "MPLCONFIGDIR": folder / "matplotlib",
        "SACREBLEU": folder / "sacrebleu",
        "WANDB_CACHE_DIR": folder / "wandb-cache",
        "WANDB_CONFIG_DIR": folder / "wandb-config",
        "WANDB_DATA_DIR": folder / "wandb-data",
        "NETRC": folder / "no-netrc",  # W&B looks for a login there
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, path in variables.items():
            patch.setenv(name, str(path))
        yield folder


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Start every test from the same state of each random generator in use."""
    random.seed(1)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(1)
    if "torch" in sys.modules:
        from variations.training.seeding import seed_torch

        seed_torch(1)
