"""A trained translation run, for the verbs that translate with it or draw its attention."""

from pathlib import Path
from typing import TYPE_CHECKING

from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.translation.task import subwords_of

if TYPE_CHECKING:
    from variations.models import SequenceToSequence
    from variations.tasks.translation.config import TranslationConfig
    from variations.tasks.translation.data.subwords import Subwords


def load_model(path: Path) -> "tuple[SequenceToSequence, Subwords, TranslationConfig]":
    """The network of a run as it was tested, its vocabulary and its configuration.

    Raises:
        UserError: There is no such run, it is none of translation, it has no checkpoint, or its vocabulary is gone.
    """
    from typing import cast

    from variations.training.weights import load_network

    network, config = load_network(path)
    if config.task != "translation":
        raise UserError(f"{path} is a run of task={config.task}: give one of task=translation.")
    return cast("SequenceToSequence", network), subwords_of(config, RunFolder.open(path)), config
