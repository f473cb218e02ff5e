"""A Lightning callback that counts updates."""

from typing import Any

from pytorch_lightning import Callback


class CountUpdates(Callback):
    """Count batches in `updates`, and save the count in checkpoints."""

    def __init__(self) -> None:
        self.updates = 0

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """Count the batch."""
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the count."""
        return {"updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the count."""
        self.updates = state_dict["updates"]
