"""Which runs of a row are still to be done, and how far those have come that were begun."""

import re
from dataclasses import dataclass

from variations.configuration.compose import to_dict
from variations.errors import UserError
from variations.store.ledger import RunFolder, config_hash, latest
from variations.store.naming import run_folder
from variations.tasks.translation.config import TranslationConfig as Config

_CHECKPOINT = re.compile(r"step(\d+)\.ckpt")


@dataclass(frozen=True)
class Launch:
    """One run of a row."""

    seed: int
    state: str
    """`finished`, `pruned`, `running`, `interrupted`, `failed`, or `absent`."""
    done: float = 0.0
    """Share of the updates that its newest checkpoint has behind it."""

    @property
    def left(self) -> bool:
        """Whether the same command would do anything for it."""
        return self.state not in ("finished", "pruned")


def launch(config: Config) -> Launch:
    """Look at the run's folder; a run of another configuration counts as absent."""
    folder = latest(run_folder(config))
    if folder is None:
        return Launch(config.seed, "absent")
    try:
        state, same = folder.state(), folder.config_hash() == config_hash(to_dict(config))
    except UserError:
        return Launch(config.seed, "failed")
    if not same or (state == "finished" and config.force):
        return Launch(config.seed, "absent")
    if state == "finished" and not folder.finished():
        return Launch(config.seed, "interrupted", 1.0)  # its result is lost: it is tested again
    done = 1.0 if state == "finished" else min(1.0, _newest_step(folder) / config.trainer.max_steps)
    return Launch(config.seed, state, done)


def _newest_step(folder: RunFolder) -> int:
    found = (_CHECKPOINT.fullmatch(path.name) for path in folder.checkpoints.glob("step*.ckpt"))
    return max((int(match[1]) for match in found if match), default=0)
