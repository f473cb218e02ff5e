"""What every test relies on: one thread per process, the same seeds, no account, no file outside a temporary folder.

The environment is set when this file is read, before anything imports torch or W&B, so that processes which a test
starts inherit it. Nothing heavy is imported here: tests of the torch-free parts start in a moment.
"""

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
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


pytest_plugins = ["stored_runs", "loopback"]
"""Fixtures of tests/support that several folders use: fabricated run stores, and a web server that misbehaves."""

LONGEST = ("test_slurm.py", "test_ray.py", "test_drill.py")
"""Files that wait for clusters and leases more than they compute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Beside other workers, the files that take longest come first, so that no worker is left alone with one."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: (item.path.name not in LONGEST, -sizes[item.path]))


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
