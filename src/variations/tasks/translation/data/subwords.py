"""Sub-words: one SentencePiece BPE vocabulary for both languages (Vaswani et al. 2017, section 5.1).

Text is normalised by SentencePiece's `nmt_nfkc` (Unicode NFKC, white space and control characters become one space), so
decoding gives detokenised text with single spaces. With `data.lowercase` a line is lower-cased first (Python's
`str.lower`, which keeps ß). A character that never occurred in training becomes UNK; no line fails.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from variations.data.entry import entry, key_of, refuse_edited, text_hashes, text_sha256
from variations.data.special import BOS, EOS, PAD, UNK
from variations.store import inputs
from variations.store.checksums import file_sha256
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.system.terminal import status_line
from variations.tasks.translation.config import MODEL_FILE, DataConfig, TranslationConfig
from variations.tasks.translation.data.corpora import Corpus, TextPair, cache_folder
from variations.tasks.translation.data.textfiles import NORMALISATION, iterate_pairs

TRAINED_ON = 2_000_000
"""Most pairs on which the vocabulary is trained, evenly spaced over the corpus; more make hardly any difference."""
SMALL = 1_000_000
"""Up to this number of training pairs, every character becomes a sub-word; beyond it, all but the rarest 0.01 %."""
LONGEST_LINE = 1 << 20
"""In bytes; by default, SentencePiece ignores training lines of more than 4,192 bytes."""


class Subwords:
    """A trained vocabulary; ids 0 to 3 are PAD, BOS, EOS, UNK.

    Attributes:
        size: number of sub-words, special symbols included.
        path: the SentencePiece model.
        sha256: of that file.
        lowercase: whether `encode` lower-cases.
    """

    def __init__(self, path: Path, *, lowercase: bool = False) -> None:
        import sentencepiece

        self.path = path
        self.lowercase = lowercase
        try:
            self.sha256 = file_sha256(path)
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise UserError(
                f"{path} is not a readable SentencePiece model; delete it, and it is made again."
            ) from error
        self.size = int(self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, ending in EOS. A blank line gives [EOS]."""
        text = [line.lower() for line in lines] if self.lowercase else list(lines)
        encoded: list[list[int]] = self._processor.encode(text) if text else []
        for ids in encoded:
            ids.append(EOS)
        return encoded

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Detokenised text of each row up to the first EOS; no special symbols, no ids beyond the vocabulary."""
        rows = [[i for i in _until_eos(row) if i not in (PAD, BOS, UNK) and i < self.size] for row in ids]
        decoded: list[str] = self._processor.decode(rows) if rows else []
        return decoded

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The sub-words themselves, the labels of attention maps; ▁ marks the start of a word."""
        return [str(self._processor.id_to_piece(int(i))) for i in ids]


def subwords_of(config: TranslationConfig, folder: RunFolder) -> Subwords:
    """The vocabulary of a stored run. Raises UserError if it is missing or has changed."""
    return Subwords(inputs.kept(folder, MODEL_FILE), lowercase=config.data.lowercase)


def subwords_for(corpus: "Corpus", data: DataConfig, *, progress: bool = True) -> Subwords:
    """The corpus's vocabulary, trained on the training text of both languages if it is not yet in the cache.

    The cache entry's name is the hash of the training text, the settings and SentencePiece's version; any number of
    processes may call this at once.

    Raises:
        UserError: `data.vocabulary` is too large or too small for this text.
        DataError: the training text is empty.
    """
    texts = text_hashes([corpus.train.source, corpus.train.target])
    folder = cache_folder(data) / "subwords" / subwords_key(corpus.train, data)

    def build(made: Path) -> dict[str, Any]:
        pairs = sum(1 for _ in _pairs(corpus.train, data))
        shown = f"Training {data.vocabulary:,} sub-words on {min(pairs, TRAINED_ON):,} pairs"
        with status_line(shown, progress):
            (made / MODEL_FILE).write_bytes(_train(corpus.train, data, pairs))
        refuse_edited(texts)  # else the entry would be that of another text
        return {"pairs": pairs}

    entry(folder, build)
    return Subwords(folder / MODEL_FILE, lowercase=data.lowercase)


def subwords_key(train: "TextPair", data: DataConfig) -> str:
    """Name of the cache entry."""
    import sentencepiece

    return key_of(
        {
            "source": text_sha256(train.source),
            "target": text_sha256(train.target),
            "train_pairs": data.train_pairs,
            "vocabulary": data.vocabulary,
            "lowercase": data.lowercase,
            "trained_on": TRAINED_ON,
            "sentencepiece": sentencepiece.__version__,
        }
    )


def _until_eos(row: Sequence[int]) -> list[int]:
    ids = [int(i) for i in row]
    return ids[: ids.index(EOS)] if EOS in ids else ids


def _pairs(train: "TextPair", data: DataConfig) -> Iterator[tuple[str, str]]:
    return islice(iterate_pairs(train.source, train.target), data.train_pairs)


def _training_lines(pair: "TextPair", data: DataConfig, pairs: int) -> Iterator[str]:
    every = max(1, -(-pairs // TRAINED_ON))
    for source, target in islice(_pairs(pair, data), 0, None, every):
        for line in (source, target):
            if line.strip():
                yield line.lower() if data.lowercase else line


def _train(pair: "TextPair", data: DataConfig, pairs: int) -> bytes:
    """The model's bytes, the same each time: one thread, and no sampling by SentencePiece itself."""
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_training_lines(pair, data, pairs),
            model_writer=model,
            model_type="bpe",
            vocab_size=data.vocabulary,
            character_coverage=1.0 if pairs <= SMALL else 0.9999,
            normalization_rule_name=NORMALISATION,
            byte_fallback=False,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            max_sentence_length=LONGEST_LINE,
            num_threads=1,
            minloglevel=2,  # its log is long, and its errors arrive as exceptions
        )
    except RuntimeError as error:
        raise _explained(str(error), pair, data) from error
    return model.getvalue()


def _explained(message: str, pair: "TextPair", data: DataConfig) -> UserError:
    """SentencePiece's error message in terms of the user's configuration."""
    if largest := re.search(r"too high \(\d+\).*<= (\d+)", message):
        return UserError(
            f"data.vocabulary={data.vocabulary} is too large for the training text {pair.source}: "
            f"the largest possible value is {largest[1]}."
        )
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"data.vocabulary={data.vocabulary} is too small for the training text {pair.source}: "
            f"its characters alone need at least {smallest[1]}."
        )
    if "sentences_.empty()" in message:
        return DataError(f"{pair.source} and {pair.target} contain no text to learn sub-words from.")
    return UserError(f"SentencePiece could not learn sub-words from {pair.source}: {message}")
