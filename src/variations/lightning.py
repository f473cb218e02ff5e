"""All that is used of Lightning, imported without SciPy's signal processing and matplotlib.

Lightning imports torchmetrics, and that imports both wherever they are installed: to add a name to the one that other
packages miss, and to name types of the other. Nothing here uses its metrics, and that is a second of every start
(docs/speed.md). So stand-ins take their places for as long as Lightning is imported; whoever wants to plot metrics of
torchmetrics imports matplotlib before.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> "_StandIn":
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name)

    def __call__(self, *args: Any, **kwargs: Any) -> "_StandIn":
        return self  # some are decorators


@contextmanager
def _without(name: str, *more: str) -> Iterator[None]:
    """The modules `name` and `more` are not loaded inside, unless the first of them has been, or is not installed."""
    absent = find_spec(name.partition(".")[0]) is None  # then nobody imports it
    standing = {} if absent or name in sys.modules else {each: _StandIn(each) for each in (name, *more)}
    sys.modules.update(standing)
    try:
        yield
    finally:
        for each in standing:
            del sys.modules[each]


with _without("scipy.signal"), _without("matplotlib", "matplotlib.axes", "matplotlib.pyplot"):
    import pytorch_lightning as pl
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.utilities.seed import pl_worker_init_function
    from pytorch_lightning.plugins.io import CheckpointIO

__all__ = ["CheckpointIO", "LightningEnvironment", "pl", "pl_worker_init_function"]
