"""A run's mirror in Weights & Biases.

Its `_step` is the number of updates, by which the service knows what it has received: online, a continued run sends
only the lines that the service lacks. Offline, each start writes all lines to a new folder; the folders of earlier
starts, which a kill may have left unreadable, are set aside. `wandb sync` of the newest folder therefore gives the same
as online logging.
"""

import importlib
import logging
import math
import re
import secrets
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.doors import shown
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.figures.weights import KEY
from variations.store.atomic import read_object, write_json, write_text
from variations.store.identity import config_hash
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.training.tracking.final import Final, numbers
from variations.training.tracking.mode import without_key

log = logging.getLogger(__name__)

STEP = "trainer/global_step"
"""Number of updates: the x axis of every curve."""
CONNECT_SECONDS = 30
PATIENCE_SECONDS = 3.0
"""Seconds without an answer after which the user is informed."""
FINISH_SECONDS = 300
"""How long the end of a run waits for uploads; the rest stays in the run's folder for `wandb sync`."""
_LONGEST = {"name": 128, "group": 128, "job_type": 64, "tag": 64}
"""Largest lengths, in characters, that the service accepts."""


@contextmanager
def _told_if_slow(mode: str) -> Iterator[None]:
    """Inform the user if W&B does not answer soon."""
    text = f"W&B has not answered yet; waiting for up to {CONNECT_SECONDS} s."
    timer = threading.Timer(PATIENCE_SECONDS, log.warning, [text])
    timer.daemon = True
    if mode == "online":
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _refused(error: Exception) -> UserError:
    """What W&B itself says about its settings."""
    told = re.sub(r" *For further information visit \S+", "", without_key(str(error))).rstrip(".")
    return UserError(
        f"W&B cannot be used: {told}. Correct logger.…, or the environment's variables "
        "WANDB_…, or log without W&B (logger=none)."
    )


class WeightsAndBiases:
    """One W&B run.

    Args:
        config: The run's configuration.
        folder: Its folder; W&B's own files are in its `wandb/`, and the run's identifier in W&B is in `wandb.json`.
        mode: `online` or `offline`.

    Raises:
        UserError: The configuration requires online mode, and W&B accepts no login.
    """

    name = "W&B"

    def __init__(self, config: RunConfig, folder: RunFolder, mode: str) -> None:
        self.config, self.folder = config, folder
        self._earlier = list((folder.path / "wandb").glob("offline-run-*"))
        self.run = self._init(mode)
        # W&B reports imports to its helper process. Were that killed, every import of certain libraries would fail.
        if unhook := getattr(self.run, "_unregister_telemetry_import_hooks", None):
            unhook(self.run.id)
        self.run.define_metric(STEP, hidden=True)
        self.run.define_metric("*", step_metric=STEP)

    def _init(self, mode: Any) -> Any:
        try:
            return self._started(mode)
        except (ValueError, TypeError) as error:  # of a setting, which may come from the environment
            raise _refused(error) from error

    def _started(self, mode: Any) -> Any:
        import wandb

        try:
            with _told_if_slow(mode):
                return wandb.init(
                    mode=mode,
                    resume="allow" if mode == "online" else None,
                    reinit="create_new" if wandb.run else None,  # a run of the user's own in this process goes on
                    **self._facts(),
                )
        except wandb.errors.Error as error:
            if mode == "offline":  # which needs no service and no login
                raise _refused(error) from error
            told = without_key(str(error)).rstrip(".")
        if self.config.logger.mode == "online":
            raise UserError(
                f"logger.mode=online, but W&B answers: {told}. Log in with `wandb login` (or WANDB_API_KEY), or leave "
                "logger.mode out: the run is then logged offline, and `wandb sync` sends it later."
            )
        if wandb.run is None:  # otherwise it reports that the identifier is in use
            wandb.teardown()
        log.warning("W&B cannot be reached, so this run is logged offline; `wandb sync` sends it later. (%s)", told)
        return self._started("offline")

    def _facts(self) -> dict[str, Any]:
        import wandb

        config, folder = self.config, self.folder
        git = (folder.environment() or {}).get("git") or {}
        attempt = f" attempt {folder.attempt}" if folder.attempt > 1 else ""
        settings = wandb.Settings(
            silent=True,
            console="off",  # progress bars are not logs, and stdout stays unchanged
            disable_git=True,  # environment.json has the commit, without credentials
            git_commit=git.get("commit"),
            git_remote_url=git.get("remote"),
            init_timeout=CONNECT_SECONDS,
            finish_timeout=FINISH_SECONDS,
        )
        return {
            "id": _identifier(config, folder),
            "name": f"{folder.row} seed {config.seed}{attempt}"[: _LONGEST["name"]],
            "project": config.logger.project,
            "entity": config.logger.entity,
            "group": config.sweep.name and config.sweep.name[: _LONGEST["group"]],
            "job_type": folder.row[: _LONGEST["job_type"]],
            "tags": tags(config),
            "dir": str(folder.path),
            "config": to_dict(config),
            "settings": settings,
        }

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Send the lines that W&B lacks; set aside the folders of earlier offline starts."""
        for line in lines:
            self.line(line)
        if self.run.offline:
            for path in self._earlier:
                path.rename(path.with_name(f"earlier-{path.name}"))

    def line(self, line: Mapping[str, Any]) -> None:
        """Send a line of metrics, unless W&B already has its step."""
        step = int(line["step"])
        if step >= self.run.starting_step:
            self.run.log(numbers(line) | _branches(line) | {STEP: step}, step=step)

    def end(self, final: Final) -> None:
        """Send tables of translations and scores, pictures, the summary, and files that describe the run."""
        import wandb

        step = int(final.result["steps"])
        media: dict[str, Any] = {
            f"samples/{name}": wandb.Table(columns=list(found.columns), data=[list(row) for row in found.rows])
            for name, found in final.samples.items()
        }
        media["scores"] = wandb.Table(columns=["set", "score", "value", "convention"], data=final.ladder())
        media |= {
            f"attention/{part}": wandb.Image(str(path), caption=f"{part}: layers and heads")
            for part, path in final.pictures.items()
        }
        if self.run.starting_step <= step + 1:
            self.run.log(media | {STEP: step}, step=step + 1)
        self.run.summary.update(final.scores() | final.totals())
        self._save_files(final)

    def _save_files(self, final: Final) -> None:
        place = Path(self.run.dir)
        for name in ("environment.json", "data_card.json"):
            if (self.folder.path / name).exists():
                shutil.copyfile(self.folder.path / name, place / name)
        write_json(place / "result.json", dict(final.result))
        git = (self.folder.environment() or {}).get("git") or {}
        if git.get("diff"):
            write_text(place / "diff.patch", git["diff"] + "\n")
        for name in ("environment.json", "data_card.json", "result.json", "diff.patch"):
            if (place / name).exists():
                self.run.save(str(place / name), base_path=str(place), policy="now")

    def close(self, exit_code: int) -> None:
        """End the W&B run of this process, and tell where it is."""
        place = f"`wandb sync {shlex.quote(shown(Path(self.run.dir).parent))}` sends it"
        told = f"logged offline; {place}" if self.run.offline else self.run.url
        self.run.finish(exit_code=exit_code)
        if told:
            print(f"W&B: {told}", file=sys.stderr, flush=True)

    def abandon(self) -> None:
        """End W&B's helper process, which is probably gone, without the traceback that W&B would print at exit."""
        import wandb

        with suppress(Exception):
            if wandb.run in (None, self.run):
                wandb.teardown()


def tags(config: RunConfig) -> list[str]:
    """Tags to filter by: table, row, model and its size, data, recipe, debug, and `logger.tags`."""
    variation = config.variation
    found = [variation.table, variation.row, *named(config.task).label(config), config.recipe.name]
    found += [config.debug.name and f"debug-{config.debug.name}", *config.logger.tags]
    return sorted({tag[: _LONGEST["tag"]] for tag in found if tag})


def _identifier(config: RunConfig, folder: RunFolder) -> str:
    """The run's identifier in W&B: identity, seed, attempt and a random suffix, stored in `wandb.json`.

    The random suffix distinguishes runs of the same experiment in two places, or after its folder was removed. A copy
    of the folder under another name gets an identifier of its own, so that it does not replace the original.
    """
    path, name = folder.path / "wandb.json", "/".join(folder.path.parts[-3:])
    stored = read_object(path) or {}  # of a new run, or if the file is damaged
    if "id" in stored and stored.get("run", name) == name:
        return str(stored["id"])
    identity = config_hash(to_dict(config))[:8]
    made = f"{identity}-{config.seed}-{folder.attempt}-{secrets.token_hex(3)}"
    write_json(path, {"id": made, "run": name, "project": config.logger.project, "entity": config.logger.entity})
    return made


def _branches(line: Mapping[str, Any]) -> dict[str, Any]:
    """For each branched sub-layer a histogram of κ and one of α, and a curve of every weight."""
    found: dict[str, Any] = {}
    for key, values in line.items():
        match = KEY.fullmatch(key)
        if match and isinstance(values, list) and all(isinstance(v, int | float) and math.isfinite(v) for v in values):
            found[key] = _histogram(values)
            found |= {f"{match[5]}/{match[1]}.{n}": float(value) for n, value in enumerate(values, start=1)}
    return found


def _histogram(values: Sequence[float]) -> Any:
    """32 bins from 0 to 1, the range of weights on a simplex; over the values' range if one is outside."""
    import numpy as np

    wandb = importlib.import_module("wandb")
    inside = min(values) >= 0 and max(values) <= 1
    return wandb.Histogram(np_histogram=np.histogram(values, bins=32, range=(0.0, 1.0) if inside else None))
