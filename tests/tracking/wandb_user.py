"""Processes of a user who is logged in to the service on loopback."""

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from wandb_service import Service

ROOT = Path(__file__).resolve().parents[2]
KEY = "0123456789abcdef" * 2 + "badc0ffe"
"""An API key in W&B's format, which must not appear anywhere."""


def environment(service: Service, home: Path, **changes: str) -> dict[str, str]:
    """Return the environment of a user who is logged in to `service` and whose W&B keeps its own files below `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    folders = {f"WANDB_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "CACHE", "DATA")}
    account = {"WANDB_BASE_URL": service.url, "WANDB_API_KEY": KEY, "NETRC": str(home / "netrc")}
    quiet = {"WANDB_ERROR_REPORTING": "false"}
    source = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])}
    return kept | folders | account | quiet | source | changes


def python(code: str, *arguments: Any, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `code`, whatever its exit status."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def no_key_below(*folders: Path) -> None:
    """Assert that no file below these folders, hidden or not, contains the key, plain or in HTTP encoding."""
    forms = [KEY.encode(), base64.b64encode(f"api:{KEY}".encode())]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if any(form in path.read_bytes() for form in forms)] == []
