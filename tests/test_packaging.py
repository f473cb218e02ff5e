"""One installation, described identically everywhere: Makefile, constraints.txt, pyproject.toml, Dockerfile, CI."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from variations.configuration.extras import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def arguments_of(instruction: str) -> list[str]:
    return [arguments for name, arguments in instructions() if name == instruction]


# --- constraints.txt ----------------------------------------------------------------------------------------


def test_constraints_are_plain_sorted_pins_without_hosts_or_paths() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    entries = [line for line in lines if not line.startswith("#")]
    assert lines == comments + entries
    assert any("make constraints" in comment for comment in comments)
    assert not re.search(r"://|@|index-url|find-links", "\n".join(lines))
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", entry) for entry in entries)
    assert entries == sorted(entries, key=str.upper)
    assert "variations" not in pins()


def direct_requirements() -> list[str]:
    """Return the package's own requirements and those of every extra that `dev` includes."""
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    return list(dict.fromkeys([*PROJECT["dependencies"], *(text for text in extras if own_extras(text) is None)]))


LEFT_TO_TORCH = {"triton"}
"""Packages of which torch's CUDA build demands one version; its CPU build does not need them."""


def own_extras(text: str) -> set[str] | None:
    """Return the extras named by a requirement on this package; None for another package."""
    requirement = Requirement(text)
    return requirement.extras if requirement.name == "variations" else None


def test_all_is_every_extra_of_a_verb_and_dev_brings_it_and_the_docs() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert own_extras(everything) == set(extras) - {"all", "docs", "dev"}
    assert [own_extras(text) for text in extras["dev"] if own_extras(text)] == [{"all"}, {"docs"}]


def test_the_message_about_a_missing_package_knows_every_extra() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"all", "docs", "dev"}
    for extra, modules in EXTRAS.items():
        named = {
            canonicalize_name(Requirement(text).name).replace("-", "_")
            for text in PROJECT["optional-dependencies"][extra]
        }
        assert set(modules) == named - {"optuna_dashboard"}  # a separate program


def test_plain_training_needs_about_a_dozen_packages() -> None:
    assert len(PROJECT["dependencies"]) <= 14


@pytest.mark.parametrize("text", direct_requirements())
def test_every_dependency_is_pinned_inside_its_range(text: str) -> None:
    requirement = Requirement(text)
    if requirement.name in LEFT_TO_TORCH:
        assert canonicalize_name(requirement.name) not in pins()
        return
    pin = pins().get(canonicalize_name(requirement.name))
    assert pin is not None, f"{requirement.name} is not in constraints.txt: run `make constraints`"
    assert requirement.specifier.contains(Version(pin)), f"{requirement.name}=={pin} is outside {requirement.specifier}"


def test_constraints_hold_the_dependencies_of_dependencies_and_nothing_else() -> None:
    waiting = [(Requirement(text), "") for text in direct_requirements()]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ["", *requirement.extras]:
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            for text in metadata.requires(name) or []:
                needed = Requirement(text)
                # torch's CUDA packages come only with its CUDA build
                if name == "torch" and needed.marker and "platform_system" in str(needed.marker):
                    continue
                waiting.append((needed, wanted))
    needed_names = {name for name, _ in seen} - {"pip"} - LEFT_TO_TORCH
    assert needed_names - set(pins()) == set()
    platform_only = {"colorama", "tzdata"}  # needed on some systems or Python versions only
    assert set(pins()) - needed_names - platform_only == set()


def test_every_dependency_says_what_it_is_for() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for text in direct_requirements():
        for line in [line for line in lines if line.strip().startswith(f'"{text}"')]:
            assert re.search(r'",\s+# \w+', line), f"no reason given for {text}"


# --- Dockerfile ---------------------------------------------------------------------------------------------


def makefile_variable(name: str) -> str:
    (line,) = [
        line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if line.startswith(f"{name} := ")
    ]
    return line.split(" := ", 1)[1].replace("$(PY)", ".venv/bin/python")


def test_the_image_installs_by_the_same_command_as_the_makefile() -> None:
    here = shlex.split(makefile_variable("INSTALL"))
    (command,) = [run for run in arguments_of("RUN") if "pip install" in run]
    image = shlex.split(command)
    assert here[-2:] == ["--editable", ".[dev]"]
    assert image[-2:] == ["--editable", ".[wandb,tensorboard,search,dashboard]"]  # a run needs no test tools
    image.remove("--no-cache-dir")  # an image layer keeps no downloads
    assert image[:-1] == here[:-1]
    assert image[:4] == [".venv/bin/python", "-m", "pip", "install"]
    assert image[image.index("--constraint") + 1] == "constraints.txt"


def test_the_image_has_an_official_base_of_a_supported_python() -> None:
    (base,) = arguments_of("FROM")
    match = re.fullmatch(r"python:(3\.\d+)-slim-bookworm", base)
    assert match is not None
    assert Version(match[1]) in Requirement(f"python{PROJECT['requires-python']}").specifier


def test_the_image_runs_train_as_an_ordinary_user() -> None:
    names = [name for name, _ in instructions()]
    assert json.loads(arguments_of("ENTRYPOINT")[0]) == ["python", "src/train.py"]
    assert arguments_of("USER") == ["variations"]
    assert names.index("USER") < names.index("COPY") < names.index("ENTRYPOINT")
    assert (ROOT / "src/train.py").is_file()


def ignored_by_docker() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_image_holds_no_secret_and_no_history() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert not re.search(r"(?i)api_?key|token|password|secret|netrc", text)
    assert not arguments_of("ADD")
    assert not arguments_of("ARG")
    assert {".git", ".env", "**/.env", ".netrc", "**/.netrc", ".venv", "runs", "wandb"} <= set(ignored_by_docker())


def test_the_image_can_copy_what_it_names() -> None:
    ignored = [pattern for pattern in ignored_by_docker() if not pattern.startswith("**/")]
    for arguments in arguments_of("COPY"):
        *sources, _ = [word for word in arguments.split() if not word.startswith("--")]
        for source in sources:
            assert (ROOT / source).exists(), source
            assert not any(fnmatch(source, pattern) for pattern in ignored), source
    for needed in ("src", "conf", "sweeps", "constraints.txt", "pyproject.toml", "README.md", "LICENSE"):
        assert not any(fnmatch(needed, pattern) for pattern in ignored), needed


# --- CI and hooks -------------------------------------------------------------------------------------------


def test_ci_runs_lint_and_the_whole_suite() -> None:
    script = ROOT / ".ci/run"
    text = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert text.index("make lint") < text.index("make test")
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_hooks_run_the_tools_of_the_environment_and_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in hooks["repos"]] == ["local"]
    entries = {hook["id"]: hook["entry"] for hook in hooks["repos"][0]["hooks"]}
    assert set(entries) == {"ruff-check", "ruff-format", "mypy", "lint-imports"}
    assert all(entry.startswith(".venv/bin/") for entry in entries.values())


# --- make ---------------------------------------------------------------------------------------------------

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

FAKE_PYTHON = """#!/bin/sh
# Plays an interpreter: notes what it is asked, makes the folder of an environment, and installs nothing.
echo "$@" >>"$FAKE_LOG"
case "$1 $2" in
  "-c "*) exit "${FAKE_UNSUITABLE:-0}" ;;
  "--version "*) echo "Python 3.11.0" ;;
  "-m venv") mkdir -p "$4/bin" && rm -rf "$4/.unfinished" && cp "$0" "$4/bin/python" ;;
  "-m pip") exit "${FAKE_PIP_STATUS:-0}" ;;
esac
"""


class Checkout:
    """A folder with the Makefile, and a fake Python interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a folder with blanks"
        self.folder.mkdir()
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.folder / name)
        self.python = folder / "python3.11"
        self.python.write_text(FAKE_PYTHON, encoding="utf-8")
        self.python.chmod(0o755)
        self.log = folder / "log"
        self.log.touch()

    def setup(self, **environment: str) -> tuple[int, list[str], str]:
        """Run `make setup` from another folder; return exit status, commands given to the interpreter, and output."""
        before = len(self.log.read_text(encoding="utf-8").splitlines())
        done = subprocess.run(
            ["make", "--no-print-directory", "-C", self.folder, "setup", f"PYTHON={self.python}"],
            env={**os.environ, "FAKE_LOG": str(self.log), **environment},
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        asked = [
            line
            for line in self.log.read_text(encoding="utf-8").splitlines()[before:]
            if line.startswith(("-m venv", "-m pip install"))
        ]
        return done.returncode, asked, done.stdout + done.stderr


@needs_make
def test_make_without_a_target_lists_the_targets_from_any_directory() -> None:
    done = subprocess.run(["make", "-C", ROOT], capture_output=True, text=True, check=True, cwd="/")
    listed = re.findall(r"^  make (\w+) +\S", done.stdout, flags=re.MULTILINE)
    assert {"help", "setup", "demo", "test", "fast", "lint", "clean"} <= set(listed)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert phony is not None
    assert sorted(listed) == sorted(phony[1].split())


# As the fake interpreter logs it: without the quotes, which only the shell sees.
PIP = "-m pip install --no-input --disable-pip-version-check"
INSTALLATION = [f"{PIP} --quiet pip>=25", f"{PIP} --constraint constraints.txt --editable .[dev] --no-compile"]


@pytest.mark.slow
@needs_make
def test_setup_installs_once_and_again_only_when_a_pin_changed(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    assert checkout.setup()[:2] == (0, ["-m venv --clear .venv", *INSTALLATION])
    assert checkout.setup() == (0, [], "")
    os.utime(checkout.folder / "pyproject.toml")
    assert checkout.setup() == (0, [], "")
    with (checkout.folder / "constraints.txt").open("a", encoding="utf-8") as file:
        file.write("another==1.0\n")
    assert checkout.setup()[:2] == (0, INSTALLATION)
    assert checkout.setup() == (0, [], "")


@needs_make
def test_setup_starts_afresh_after_an_interrupted_installation(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    status, asked, _ = checkout.setup(FAKE_PIP_STATUS="1")
    assert status != 0
    assert asked == ["-m venv --clear .venv", *INSTALLATION]
    assert not (checkout.folder / ".venv/.installed").exists()
    assert checkout.setup()[:2] == (0, ["-m venv --clear .venv", *INSTALLATION])
    assert checkout.setup() == (0, [], "")


@needs_make
def test_setup_after_the_checkout_was_moved_installs_again(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.setup()
    checkout.folder = checkout.folder.rename(tmp_path / "elsewhere")
    assert checkout.setup()[1] == INSTALLATION


@needs_make
def test_setup_without_a_suitable_python_says_which_it_needs(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    status, asked, printed = checkout.setup(FAKE_UNSUITABLE="1")
    assert status != 0
    assert asked == []
    assert "Python 3.11 or 3.12" in printed
    assert "apt install" in printed
    assert "make setup PYTHON=" in printed
    assert not (checkout.folder / ".venv").exists()
