"""The environment of a run for environment.json: commit, versions, machine and data, without secrets."""

import hashlib
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from variations.store.hidden import clean
from variations.system.processes import cores, machine_bytes

PROJECT = Path(__file__).resolve().parents[3]
PACKAGES = (
    "variations",
    "torch",
    "pytorch-lightning",
    "numpy",
    "hydra-core",
    "omegaconf",
    "sentencepiece",
    "sacrebleu",
    "sacremoses",
    "wandb",
    "optuna",
)
COMPUTING = ("data", "models", "tasks", "training")
"""The packages of this project whose code decides what a run computes."""
LARGEST_DIFF = 200_000
"""Characters of the uncommitted changes that are kept."""


def environment(data_hashes: Mapping[str, str] | None = None, command: Sequence[str] | None = None) -> dict[str, Any]:
    """The facts needed to repeat a run. Environment variables are left out, and credentials are masked.

    Args:
        data_hashes: SHA-256 of each data file, by name.
        command: Command line; that of this process by default.
    """
    return {
        "schema": 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [clean(word) for word in (command if command is not None else sys.argv)],
        "code": code_hash(),
        "git": git_state(),
        "python": platform.python_version(),
        "packages": versions(),
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_bytes": machine_bytes(),
        "gpus": gpu_names(),
        "data": dict(data_hashes or {}),
    }


@cache
def code_hash(*packages: str) -> str:
    """12 hexadecimal digits that tell versions of the code of `packages` (default: COMPUTING) apart."""
    ours, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    files = (path for name in packages or COMPUTING for path in (ours / name).rglob("*.py"))
    for path in sorted(path for path in files if path.is_file() and not path.name.startswith(".")):  # an editor's lock
        digest.update(path.relative_to(ours).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def version(stored: Mapping[str, Any]) -> str:
    """The code of a stored environment for readers: `code 0a1b2c3d4e5f, commit 502be67b`."""
    git = stored.get("git")
    commit = git.get("commit") if isinstance(git, dict) else None
    return f"code {stored.get('code')}" + (f", commit {commit[:8]}" if isinstance(commit, str) else "")


def git_state(folder: Path = PROJECT) -> dict[str, Any]:
    """Commit, branch, remote and uncommitted changes of the project; empty outside a git checkout that has `folder`.

    Around an installed package there may be another repository, which does not have its files.
    """
    if _git(folder, "ls-files", "--", ".") == "":
        return {}
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=normal")
    if status is None:  # a damaged index, a slow disk
        commit = _git(folder, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": None} if commit else {}
    lines = [line for line in status.split("\n") if line]  # a name may contain other line breaks
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    if (commit := headers["branch.oid"]) == "(initial)":
        return {}
    changed = any(not line.startswith(("#", "?")) for line in lines)
    diff = (changed and _git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff")) or ""
    return {
        "commit": commit,
        "branch": "HEAD" if headers["branch.head"] == "(detached)" else headers["branch.head"],
        "remote": clean(_git(folder, "remote", "get-url", "origin") or "") or None,
        "dirty": any(not line.startswith("#") for line in lines),
        "untracked": [line[2:] for line in lines if line.startswith("?")],
        "diff": clean(diff[:LARGEST_DIFF]),
        "diff_cut_characters": max(0, len(diff) - LARGEST_DIFF),
    }


def versions() -> dict[str, str]:
    """Installed versions, read without importing the packages."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_model() -> str | None:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def gpu_names() -> list[str]:
    """NVIDIA devices as their driver lists them; empty if there is none. The run adds what torch reports."""
    found = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return found


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", errors="replace").rstrip("\n") if done.returncode == 0 else None
