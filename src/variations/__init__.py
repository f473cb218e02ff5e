"""Variations: an experiment platform for sequence-to-sequence ablations.

From Python: `variations.train`, `variations.load` and `variations.table` (variations/commands/api.py).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from variations.commands.api import TrainedRun, load, table, train

__version__ = "0.1.0"
__all__ = ["TrainedRun", "__version__", "load", "table", "train"]


def __getattr__(name: str) -> Any:
    """The public functions, imported when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'variations' has no attribute {name!r}")
    from variations.commands import api

    return getattr(api, name)
