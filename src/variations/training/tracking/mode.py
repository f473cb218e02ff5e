"""Whether W&B is used online or offline. It imports no wandb."""

import netrc
import os
from urllib.parse import urlparse

_WORDS = {"run": "online", "dryrun": "offline", "shared": "online"}
"""Older values of WANDB_MODE, and that for several writers, of which a run here has only one."""


def chosen_mode(wanted: str | None) -> str:
    """`online`, `offline` or `disabled`: `logger.mode`, else WANDB_MODE, else online if there are credentials."""
    if os.environ.get("WANDB_MODE") == "":  # as good as unset, but W&B itself would refuse it
        del os.environ["WANDB_MODE"]
    mode = wanted or os.environ.get("WANDB_MODE") or ("online" if logged_in() else "offline")
    return _WORDS.get(mode, mode)


def logged_in() -> bool:
    """Whether there are W&B credentials: in the environment or in the user's netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def without_key(text: str) -> str:
    """`text` on one line, without the API key that a library may have included."""
    key = os.environ.get("WANDB_API_KEY")
    line = " ".join(text.split())
    return line.replace(key, "(hidden)") if key else line
