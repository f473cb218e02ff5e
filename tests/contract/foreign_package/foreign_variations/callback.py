"""A Lightning callback that counts updates."""

from typing import Any

from pytorch_lightning import Callback


class CountUpdates(Callback):
    """Counts batches into `updates`, and keeps the count in checkpoints."""

    def __init__(self) -> None:
        self.updates = 0

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """One more."""
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The count, again."""
        self.updates = state_dict["updates"]
