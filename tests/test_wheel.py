"""The wheel, installed with only the packages of plain training, and used from another folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from served import served
from suite import sampled

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SITE = Path(sysconfig.get_path("purelib"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, so that it contains nothing from an earlier build."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "conf", "sweeps"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=left_out)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", str(source / "dist"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    (path,) = (source / "dist").glob("variations-*.whl")
    return path


def core_packages() -> set[str]:
    """Return the names of the distributions that an installation without extras includes."""
    waiting = [Requirement(text) for text in PROJECT["dependencies"]]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        for extra in ["", *requirement.extras]:
            if (requirement.name, extra) in seen:
                continue
            try:
                needed = metadata.requires(requirement.name) or []
            except metadata.PackageNotFoundError:
                continue  # for another platform
            seen.add((requirement.name, extra))
            texts = map(Requirement, needed)
            waiting += [text for text in texts if text.marker is None or text.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a virtual environment with only the wheel and links to the core packages."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (site,) = home.glob("lib/python*/site-packages")
    for name in core_packages():
        files = metadata.files(name) or []
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(SITE / top)
    return home / "bin"


class Elsewhere:
    """A folder that is not a checkout, and the installed package's commands run in it."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(self, *words: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.programs / "variations"), *words]
        environment = {**self.environment, **variables}
        return subprocess.run(
            command, cwd=self.folder, env=environment, input=text, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def elsewhere(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    return Elsewhere(installed, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="module")
def trained(elsewhere: Elsewhere) -> Elsewhere:
    done = elsewhere.run("train", "--multirun", "sweep=quickstart", "rows=[transformer]", "debug=limit")
    assert done.returncode == 0, done.stdout + done.stderr
    return elsewhere


def test_the_wheel_carries_configuration_plugins_and_assets(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    conf = [path for path in (ROOT / "conf").rglob("*.yaml") if "sweep" not in path.parts]
    wanted = {f"variations/_conf/{path.relative_to(ROOT / 'conf').as_posix()}" for path in conf}
    wanted |= {f"variations/_conf/sweep/{path.name}" for path in (ROOT / "sweeps").glob("*.yaml")}
    assert len(wanted) > 150
    for folder in ("src/variations/dashboard/static", "src/hydra_plugins"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert files
        wanted |= {path.relative_to(ROOT / "src").as_posix() for path in files}
    data = (ROOT / "src/variations").rglob("*.gz")
    wanted |= {path.relative_to(ROOT / "src").as_posix() for path in data} | {"variations/py.typed"}
    assert wanted - held == set()
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"variations", "hydra_plugins"}


def test_the_environment_holds_no_package_of_an_extra(elsewhere: Elsewhere) -> None:
    look = (
        "import importlib.util, variations\n"
        "from variations.configuration.extras import EXTRAS\n"
        "names = {name for extra in EXTRAS.values() for name in extra}\n"
        "print(variations.__file__)\n"
        "print(sorted(name for name in names if importlib.util.find_spec(name)))\n"
    )
    command = [str(elsewhere.programs / "python"), "-c", look]
    done = subprocess.run(command, env=elsewhere.environment, capture_output=True, text=True, check=True, cwd="/")
    place, found = done.stdout.splitlines()
    assert place.startswith(str(elsewhere.programs.parent))
    assert found == "[]"


def test_help_names_the_console_command(elsewhere: Elsewhere) -> None:
    assert elsewhere.run("--version").stdout == f"variations {PROJECT['version']}\n"
    told = elsewhere.run("plan", "--help").stdout
    assert "Usage: variations plan [" in told
    assert "python src/" not in told


def test_a_table_is_trained_and_printed_from_another_folder(trained: Elsewhere) -> None:
    assert (trained.folder / "runs/quickstart/transformer/seed1/result.json").is_file()
    done = trained.run("table", "sweep=quickstart", "rows=[transformer]", "format=json")
    assert done.returncode == 0, done.stderr
    assert "Transformer" in done.stdout
    assert json.loads(done.stdout)["sweep"] == "quickstart"


def test_a_run_without_wandb_says_so_in_one_line(trained: Elsewhere) -> None:
    (log,) = (trained.folder / "runs/quickstart/transformer/seed1").glob("*log*")
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if "wandb" in line]
    assert len(lines) == 1
    assert lines[0].startswith("Metrics are stored only in the run's folder: W&B needs wandb")
    assert lines[0].endswith("pip install 'variations[wandb]'.")


def test_the_trained_run_translates_and_is_scored(trained: Elsewhere) -> None:
    run = "run=runs/quickstart/transformer/seed1"
    done = trained.run("translate", run, text="a small cat\n\nthe dog sleeps\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    scored = trained.run("score", run, "format=json")
    assert scored.returncode == 0, scored.stderr
    assert "bleu" in scored.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    sampled(
        [
            (("train", "logger=wandb"), "wandb"),
            (("train", "logger=tensorboard"), "tensorboard"),
            (("train", "--multirun", "seed=1,2", "hydra/launcher=slurm"), "slurm"),
            (("train", "--multirun", "seed=1,2", "hydra/launcher=ray"), "ray"),
            (("train", "--multirun", "sweep=search_toy"), "search"),
            (("dashboard",), "dashboard"),
            (("table", "sweep=quickstart", "format=html"), "dashboard"),
            (("figures", "sweep=quickstart"), "dashboard"),
            (("translate", "run=.", "decoder=ctranslate2"), "export"),
            (("wandb_report", "sweep=quickstart"), "wandb"),
        ],
        every=3,
    ),
)
def test_a_missing_extra_is_one_sentence_before_any_work(
    words: tuple[str, ...], extra: str, installed: Path, tmp_path: Path
) -> None:
    done = Elsewhere(installed, tmp_path).run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    *heading, sentence = done.stderr.splitlines()
    assert heading in ([], ["error: 1 fault in the configuration:"])
    install = rf"which (is|are) not installed here: pip install 'variations\[{extra}\]'\.$"
    assert re.search(rf"^(error:|  -) \S.* needs .*, {install}", sentence)
    assert list(tmp_path.iterdir()) == []


def test_the_dashboard_is_served_with_its_scripts(trained: Elsewhere) -> None:
    """Serve it with its packages on the path."""
    command = [str(trained.programs / "variations"), "dashboard", "port=0"]
    environment = {**trained.environment, "PYTHONPATH": str(SITE)}
    with served(command, folder=trained.folder, environment=environment) as url:
        page = urllib.request.urlopen(url, timeout=20).read().decode()
        assert "<html" in page
        for name in re.findall(r'(?:src|href)="([^":]+\.(?:js|css))"', page):
            assert urllib.request.urlopen(f"{url.rstrip('/')}/{name.lstrip('/')}", timeout=20).read()
