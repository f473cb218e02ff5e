"""Token stores: a corpus as sub-word ids in two flat files per side, memory-mapped.

A store is built once per text and vocabulary, in chunks, so that memory does not grow with the corpus (4.5M pairs of
WMT take some 0.6 GB of disk), and shared by all runs and loader processes through the page cache.

Layout of the cache entry: `source.bin` and `target.bin` contain the ids of all kept sentences one after the other
(uint16, or int32 for more than 65,536 sub-words), `source.npy` and `target.npy` the index where each sentence starts,
and the end of the last one (int64), `kept.npy` the line (from 0) that each pair came from.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from variations.data.entry import entry, key_of, refuse_edited, text_hashes
from variations.system.errors import DataError
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data.corpora import TextPair, cache_folder
from variations.tasks.translation.data.subwords import Subwords
from variations.tasks.translation.data.textfiles import iterate_pairs

Ids = NDArray[Any]
SIDES = ("source", "target")
CHUNK = 20_000
"""Pairs encoded at a time."""


class TokenPairs:
    """A store, open for reading; a map-style dataset of `(index, source ids, target ids)`.

    Attributes:
        source_lengths, target_lengths: sub-words per sentence, EOS included, shape (pairs,).
        kept_index: line (from 0) of the text files that each pair came from, shape (pairs,).
        too_long: training pairs left out because a side exceeds `data.max_length`.
        blank: training pairs left out because a side is blank.
        dropped: both together; 0 for dev and test text, of which every line is kept.
        sha256: of the files of ids.
    """

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = folder
        self.blank, self.too_long = int(meta["blank"]), int(meta["too_long"])
        self.dropped = self.blank + self.too_long
        self._dtype = str(meta["dtype"])
        self.sha256: dict[str, str] = {f"{side}.bin": meta["sha256"][f"{side}.bin"] for side in SIDES}
        self._open()
        self.source_lengths, self.target_lengths = (np.diff(starts).astype(np.int32) for starts in self._starts)

    def _open(self) -> None:
        self._starts = [_mapped_array(self.folder / f"{side}.npy") for side in SIDES]
        self.kept_index: NDArray[np.int64] = _mapped_array(self.folder / "kept.npy")
        # Plain array views: slicing numpy.memmap itself costs several times as much.
        self._ids = [_mapped(self.folder / f"{side}.bin", self._dtype) for side in SIDES]

    def __getstate__(self) -> dict[str, Any]:
        """Without the memory maps: a loader process maps the files itself and shares their pages."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_ids", "_starts", "kept_index")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        return len(self.kept_index)

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of one pair, each ending in EOS; read-only views of shape (S,) and (T,)."""
        (s, t), (source, target) = self._starts, self._ids
        return source[s[index] : s[index + 1]], target[t[index] : t[index + 1]]

    def __getitem__(self, index: int) -> tuple[int, Ids, Ids]:
        return (int(index), *self.pair(index))


def tokens_for(
    pair: "TextPair", subwords: Subwords, data: DataConfig, *, drop_long: bool, progress: bool = True
) -> TokenPairs:
    """The store of `pair` with `subwords`, built if it is not yet in the cache; safe for concurrent runs.

    Args:
        pair: the text.
        subwords: the vocabulary.
        data: `max_length`, `train_pairs` and `cache` are used.
        drop_long: True for training text: at most `data.train_pairs` lines are read, and over-long and blank pairs
            are left out and counted. Dev and test text is kept line by line.
        progress: show a bar when stderr is a terminal.

    Raises:
        DataError: the files differ in length, are not UTF-8, or change meanwhile, or no pair is left.
    """
    settings = {"max_length": data.max_length, "train_pairs": data.train_pairs} if drop_long else {}
    texts = text_hashes([pair.source, pair.target])
    key = key_of(
        {
            "source": texts[pair.source],
            "target": texts[pair.target],
            "subwords": subwords.sha256,
            "lowercase": subwords.lowercase,
            **settings,
        }
    )
    folder = cache_folder(data) / "tokens" / key

    def build(made: Path) -> dict[str, Any]:
        limit = data.train_pairs if drop_long else None
        pairs = _reported(islice(iterate_pairs(pair.source, pair.target), limit), f"Encoding {pair.name}", progress)
        meta = _write(made, pairs, subwords, data.max_length if drop_long else None)
        refuse_edited(texts)  # else the entry would be that of another text
        return meta

    meta = entry(folder, build)
    if not meta["pairs"]:
        raise DataError(
            f"No pair of {pair.source} and {pair.target} can be used: {meta['blank']} are blank, "
            f"{meta['too_long']} exceed data.max_length={data.max_length}."
        )
    return TokenPairs(folder, meta)


def _write(folder: Path, pairs: Iterator[tuple[str, str]], subwords: Subwords, longest: int | None) -> dict[str, Any]:
    """Encode chunk by chunk into `folder`; if `longest` is None, every pair is kept."""
    dtype = "uint16" if subwords.size <= 1 << 16 else "int32"
    starts, kept = [array("q", [0]), array("q", [0])], array("q")
    too_long = blank = line = 0
    with ExitStack() as stack:
        streams = [stack.enter_context((folder / f"{side}.bin").open("wb")) for side in SIDES]
        while chunk := list(islice(pairs, CHUNK)):
            sides = [subwords.encode(side) for side in zip(*chunk, strict=True)]
            chosen: list[int] = []
            for row, (source, target) in enumerate(zip(*sides, strict=True)):
                if longest is not None and min(len(source), len(target)) <= 1:  # nothing but EOS
                    blank += 1
                elif longest is not None and max(len(source), len(target)) > longest:
                    too_long += 1
                else:
                    chosen.append(row)
            kept.extend(line + row for row in chosen)
            for stream, side_starts, side in zip(streams, starts, sides, strict=True):
                _append(stream, side_starts, [side[row] for row in chosen], dtype)
            line += len(chunk)
    for name, values in (("source", starts[0]), ("target", starts[1]), ("kept", kept)):
        np.save(folder / f"{name}.npy", np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, np.int64))
    return {"pairs": len(kept), "lines": line, "too_long": too_long, "blank": blank, "dtype": dtype}


def _append(stream: BinaryIO, starts: "array[int]", sentences: Sequence[list[int]], dtype: str) -> None:
    lengths = np.fromiter((len(ids) for ids in sentences), dtype=np.int64, count=len(sentences))
    flat = np.fromiter((i for ids in sentences for i in ids), dtype=dtype, count=int(lengths.sum()))
    flat.tofile(stream)
    starts.extend((starts[-1] + np.cumsum(lengths)).tolist())


def _mapped(path: Path, dtype: str) -> Ids:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def _mapped_array(path: Path) -> Ids:
    return np.asarray(np.load(path, mmap_mode="r"))


def _reported(pairs: Iterable[tuple[str, str]], text: str, progress: bool) -> Iterator[tuple[str, str]]:
    """The same pairs, counted on stderr as they are read, if it is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} pairs"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task(text, total=None)
        for number, pair in enumerate(pairs, start=1):
            if number % 1000 == 0:
                bar.update(task, completed=number)
            yield pair
