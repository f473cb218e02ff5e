"""Fingerprints of the inputs of a translation run: its texts, and the ids prepared from them."""

from collections.abc import Sequence

from variations.data.entry import key_of
from variations.store import inputs
from variations.store.run_folder import RunFolder
from variations.system.errors import UserError
from variations.tasks.translation.config import IDS, TranslationConfig
from variations.tasks.translation.data import corpora
from variations.tasks.translation.data.corpora import Corpus
from variations.tasks.translation.data.tokens import TokenPairs

DOWNLOADED = ("multi30k", "wmt14")


def texts(corpus: Corpus, further: Sequence[str]) -> dict[str, str]:
    """SHA-256 of each text of train, dev, test and `further` sets, by its file's name in the corpus without .gz.

    A compressed copy has the same fingerprint.
    """
    names = {path: inputs.of_text(name.removesuffix(".gz")) for path, name in corpus.file_names().items()}
    found = {}
    for name in dict.fromkeys(["train", "dev", "test", *further]):
        if name in corpus.surveys:
            pair, seen = corpus.sets()[name], corpus.surveys[name]
            found[names[pair.source]] = seen.source.text_sha256
            found[names[pair.target]] = seen.target.text_sha256
    return found


def prepared(train: TokenPairs) -> dict[str, str]:
    """The fingerprint of the training text's ids, which also depends on the code that prepared them."""
    return {IDS: key_of(train.sha256)}


def present(config: TranslationConfig) -> dict[str, str]:
    """The fingerprints of texts on this machine; empty where one is missing or faulty, or would be downloaded.

    The fault is reported when the text is needed; downloads are checked against known checksums.
    """
    if config.data.root is None and config.data.kind in DOWNLOADED:
        return {}
    try:
        return texts(corpora.load(config.data, progress=config.trainer.progress), config.decode.sets)
    except UserError:
        return {}


def changed_texts(config: TranslationConfig, folder: RunFolder) -> list[str]:
    """A sentence if the texts have changed since a run was started; else empty."""
    if not inputs.remembered(folder):  # nothing to compare, so no text is read or prepared
        return []
    names = inputs.changed(folder, present(config))
    if not names:
        return []
    where = f" in {config.data.root}" if config.data.root else ""
    return [
        f"{', '.join(names)}{where} changed after this run was started with the former text. "
        "force=true starts a new attempt with the present text; another name (name=…, a sweep: sweep.name=…) keeps "
        "both apart."
    ]
