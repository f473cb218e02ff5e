"""Data and experiment."""

from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from variations.tasks.base import Experiment, ParameterGroup


class Batch:
    """A batch of points: x, y, each (B,)."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, index: list[int]) -> None:
        self.x, self.y, self.index = x, y, index

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, part: slice) -> "Batch":
        return Batch(self.x[part], self.y[part], self.index[part])

    def to(self, device: Any) -> "Batch":
        return Batch(self.x.to(device), self.y.to(device), self.index)


class Points(pl.LightningDataModule):
    """Training points in batches; dev and test points as a whole."""

    accumulate = 1

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def setup(self, stage: str | None = None) -> None:
        data = self.config.data
        self.train, self.dev, self.test = (self._points(data.points, seed, data.noise) for seed in (1, 2, 3))

    def _points(self, count: int, seed: int, noise: float) -> Batch:
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, count)
        y = 2 * x + 1 + rng.normal(0, noise, count)
        return Batch(torch.tensor(x).float(), torch.tensor(y).float(), list(range(count)))

    def train_dataloader(self) -> DataLoader[Batch]:
        size = self.config.data.batch
        parts: Any = [self.train[at : at + size] for at in range(0, len(self.train), size)]
        return DataLoader(parts, batch_size=None, shuffle=True)

    def batches(self) -> int:
        return len(self.train_dataloader())

    def keep_facts(self, folder: Any) -> dict[str, str]:
        return {"points": f"{self.config.data.points} of a line"}


def network(config: Any) -> nn.Linear:
    return nn.Linear(config.model.degree + 1, 1, bias=False)


class Regression(Experiment):
    """Least squares over powers of x."""

    def __init__(self, config: Any, data: Points) -> None:
        self.config, self.data, self.network = config, data, network(config)

    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup("weights", list(self.network.parameters()), lambda step: self.config.recipe.lr)]

    def errors(self, batch: Batch) -> torch.Tensor:
        """Return squared errors, (B,)."""
        powers = torch.stack([batch.x**k for k in range(self.config.model.degree + 1)], dim=1)  # (B, degree + 1)
        return (self.network(powers)[:, 0] - batch.y) ** 2

    def losses(self, batch: Batch) -> tuple[torch.Tensor]:
        return (self.errors(batch).sum(),)

    def count(self, batch: Batch) -> list[int]:
        return [len(batch), 6 * len(batch) * (self.config.model.degree + 1)]

    @torch.no_grad()
    def validate(self, place: Any) -> dict[str, float]:
        return {"dev/mse": float(self.errors(self.data.dev).mean())}

    @torch.no_grad()
    def test(self, folder: Any, place: Any) -> dict[str, Any]:
        errors = self.errors(self.data.test).numpy()
        np.save(folder.path / "errors.npy", errors)
        dev = self.validate(place)["dev/mse"]
        return {
            "scores": {"test": {"mse": {"value": float(errors.mean())}}, "dev": {"mse": {"value": dev}}},
            "loss": {},
        }
