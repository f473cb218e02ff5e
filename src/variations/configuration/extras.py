"""Packages that only some commands need: the extras of pyproject.toml, and the message if one is missing."""

import importlib.util

from variations.configuration.places import IN_CHECKOUT
from variations.system.errors import UserError

EXTRAS = {
    "wandb": ("wandb", "wandb_workspaces", "matplotlib"),
    "tensorboard": ("tensorboard", "matplotlib"),
    "search": ("optuna",),
    "dashboard": ("bokeh", "matplotlib"),
    "slurm": ("submitit",),
    "ray": ("ray",),
    "export": ("ctranslate2",),
}
"""The modules of each extra that we import."""


def lacking(extra: str, what: str) -> list[str]:
    """Say what `what` lacks and how to install it; empty if nothing is missing. No module is imported."""
    missing = [name for name in EXTRAS[extra] if not installed(name)]
    if not missing:
        return []
    install = f"pip install -e '.[{extra}]'" if IN_CHECKOUT else f"pip install 'variations[{extra}]'"
    verb = "is" if len(missing) == 1 else "are"
    return [f"{what} needs {', '.join(missing)}, which {verb} not installed here: {install}."]


def need(extra: str, what: str) -> None:
    """Check that an extra is installed.

    Raises:
        UserError: It is not; the message says what to install.
    """
    for text in lacking(extra, what):
        raise UserError(text)


def installed(name: str) -> bool:
    """Whether a package or module can be found; it is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # the module exists but has no spec, as if it was put into sys.modules by hand
        return True
