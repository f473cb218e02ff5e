"""A run's mirror in TensorBoard's event files: curves, histograms of branch weights, translations, and HParams."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.store.differences import changes
from variations.store.identity import flatten
from variations.store.ledger import RunFolder
from variations.tasks.base import Samples
from variations.training.tracking.final import Final, numbers


class EventFiles:
    """Writes to `tensorboard/` in the run's folder.

    A continued run hides the events of its earlier processes and writes all of them again, so that a kill loses nothing
    and nothing is shown twice. The time axis `relative` is training time.
    """

    name = "TensorBoard"

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self.config, self.folder = config, folder
        self._began = time.time()
        # This hides all events of earlier files.
        self.writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=0)

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Write the run's lines so far."""
        if lines:
            self._began -= float(lines[-1].get("seconds") or 0)
        for line in lines:
            self.line(line)
        self.writer.flush()

    def line(self, line: Mapping[str, Any]) -> None:
        """Write a line of metrics."""
        import numpy as np

        step, when = int(line["step"]), self._began + float(line.get("seconds") or 0)
        for key, value in numbers(line).items():
            self.writer.add_scalar(key, value, step, walltime=when)
        for key, value in line.items():
            if key.startswith("branch/") and isinstance(value, list):
                self.writer.add_histogram(key, np.asarray(value, dtype=np.float64), step, walltime=when)

    def end(self, final: Final) -> None:
        """Write final scores with the row's changes (HParams), translations, and pictures."""
        step = int(final.result["steps"])
        for name, samples in final.samples.items():
            self.writer.add_text(f"samples/{name}", _markdown(samples), step)
        for part, path in final.pictures.items():
            self.writer.add_image(f"attention/{part}", _pixels(path), step, dataformats="HWC")
        scores = {f"final/{key}": value for key, value in final.scores().items()}
        self._hyper_parameters(scores | {key: v for key, v in final.totals().items() if key.startswith("final/")}, step)
        self.writer.flush()

    def _hyper_parameters(self, metrics: Mapping[str, float], step: int) -> None:
        from torch.utils.tensorboard.summary import hparams

        # `SummaryWriter.add_hparams` would create a separate run.
        for summary in hparams(hyper_parameters(self.config, self.folder), dict(metrics)):
            self.writer._get_file_writer().add_summary(summary)  # type: ignore[no-untyped-call]
        for key, value in metrics.items():
            self.writer.add_scalar(key, value, step)

    def close(self, exit_code: int) -> None:
        """Flush the files."""
        self.writer.close()

    def abandon(self) -> None:
        """Nothing is left."""


def hyper_parameters(config: RunConfig, folder: RunFolder) -> dict[str, bool | int | float | str]:
    """The row, its seed, every key with a symbol in the papers, and keys that differ from the schema's default."""
    flat, symbols = flatten(to_dict(config)), named(config.task).symbols
    changed = changes(asdict(type(config)()), to_dict(config))
    chosen = {key: flat[key] for key in symbols if key in flat} | {key: new for key, (_, new) in changed.items()}
    chosen |= {"row": folder.row, "seed": config.seed}
    return {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in chosen.items()}


def _markdown(samples: Samples, limit: int = 20) -> str:
    def cell(value: str | float) -> str:
        text = value if isinstance(value, str) else f"{value:.1f}"
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")

    lines = [" | ".join(["", *samples.columns, ""]).strip(), "|" + "---|" * len(samples.columns)]
    lines += [" | ".join(["", *map(cell, row), ""]).strip() for row in samples.rows[:limit]]
    return "\n".join(lines)


def _pixels(path: Any) -> Any:
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))
