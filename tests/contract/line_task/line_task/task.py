"""Definition of the task; importing this module does not import torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from variations.configuration.schema import RunConfig, number
from variations.tasks.base import Measure, Recorded
from variations.tasks.task import Task

MSE = Measure("test.mse", "test MSE", False, "mean squared error", items="points", digits=4)
DEV = Measure("dev.mse", "dev MSE", False, "mean squared error", set="dev", digits=4)


@dataclass
class LineData:
    """Points (x, a x + b + noise), and the number of points per update."""

    name: str = "a line"
    points: int = number(64, ge=8)
    noise: float = number(0.1, ge=0)
    batch: int = number(16, ge=1)


@dataclass
class LineModel:
    """y = a x^degree + …: a constant for degree 0, a line for degree 1."""

    degree: int = number(1, ge=0)


@dataclass
class LineConfig(RunConfig):
    """The complete configuration of a run."""

    task: str = "line"
    data: LineData = field(default_factory=LineData)
    model: LineModel = field(default_factory=LineModel)


class Line(Task):
    """Regression on a line."""

    name, schema, metrics = "line", LineConfig, ("test.mse", "dev.mse")
    losses, units, loss_unit, monitor = ("loss",), ("points", "flops"), "points", "dev/mse"
    curves: Mapping[str, Recorded] = {
        "dev/mse": Recorded("dev MSE", logarithmic=True),
        "train/loss": Recorded("training MSE"),
    }
    symbols: Mapping[str, str] = {"model.degree": "degree"}

    def data(self, config: LineConfig) -> Any:
        """Return the data, generated from a seed."""
        from line_task.learn import Points

        return Points(config)

    def experiment(self, config: LineConfig, data: Any, device: str) -> Any:
        """Return the least-squares experiment."""
        from line_task.learn import Regression

        return Regression(config, data)

    def network(self, config: LineConfig, folder: Any) -> Any:
        """Build a linear layer over powers of x."""
        from line_task.learn import network

        return network(config)

    def measure(self, key: str) -> Measure:
        """Return the measure of the test or dev set."""
        return {"test.mse": MSE, "dev.mse": DEV}.get(key) or super().measure(key)

    def columns(self, metric: Measure) -> Sequence[Measure]:
        """Return the metric and its counterpart on the other set."""
        return [metric, *(measure for measure in (MSE, DEV) if measure != metric)]

    def items(self, run: Any, measure: Measure, *, cache: bool = True) -> Any:
        """Return squared errors and ones, (points, 2)."""
        errors = np.load(run.folder.path / "errors.npy")
        return np.stack([errors, np.ones_like(errors)], axis=1)

    def record(self, run: Any) -> dict[str, bytes]:
        """Return the squared errors, which tables of recorded runs test."""
        return {"errors.npy": (run.folder.path / "errors.npy").read_bytes()}


TASK = Line()
