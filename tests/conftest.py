"""What every test relies on: one thread per process, the same seeds, no account, no file outside a temporary folder.

The environment is set when this file is read, before anything imports torch or W&B, so that processes which a test
starts inherit it. Nothing heavy is imported here: tests of the torch-free parts start in a moment.
"""

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

# Several test processes share the cores; and sums come out the same whether or not a neighbour is at work.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", MPLBACKEND="Agg")
# An account, colours on demand, or a surrounding cluster job would change what the code under test does.
for _variable in [name for name in os.environ if name.startswith("SLURM_")]:
    del os.environ[_variable]
for _variable in ("WANDB_API_KEY", "FORCE_COLOR", "CLICOLOR_FORCE", "HYDRA_FULL_ERROR"):
    os.environ.pop(_variable, None)

# A shell that starts the suite in the background lets it, and all it starts, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Generated examples are the same each time, and a slow moment of the machine is no failure.
settings.register_profile("variations", deadline=None, derandomize=True)
settings.load_profile("variations")


pytest_plugins = ["forked", "stored_runs", "loopback"]
"""Of tests/support: commands that begin in a moment; fabricated run stores, and a web server that misbehaves."""

LONGEST = ("test_slurm.py", "test_ray.py", "test_drill.py")
"""Files that wait for clusters and leases more than they compute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Beside other workers, the files that take longest come first, so that no worker is left alone with one."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: (item.path.name not in LONGEST, -sizes[item.path]))


NOT_HERE = re.compile(
    "|".join(
        (
            "no GPU|this process has a GPU|this process runs the kernels itself",  # or in a child process
            "VARIATIONS_TEST_DATA|VARIATIONS_BABI|^PTB=|no local copy of|no specification at",  # texts of others
            "^EVALB=|pdflatex is not installed",  # programs of others
            "root may read everything|^one core:|a small tmpfs|the tests fork",  # of this machine
            "^no branches$|^long sequences take torch's kernel in both$",  # combinations without meaning
        )
    )
)
"""Reasons for which a test may be skipped in continuous integration. All else must be there: see .ci/run."""


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure where nobody would notice it."""
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
    """A test that is skipped for a reason that is not on the list has failed, in continuous integration."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same of a whole file."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture(scope="session", autouse=True)
def private_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for caches and settings, shared by the processes of this test session and by nobody else."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker's own folder stands in the session's
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
    """Every test starts from the same state of every random generator that is in use."""
    random.seed(1)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(1)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(1)
