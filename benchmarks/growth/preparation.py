"""Preparing a corpus, part by part, at an eighth to the whole of it; and an estimate for 4.5M pairs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from networks import apart, grown
from rich.console import Console
from rich.progress import track
from series import MB, Axis, Line, exponent

from variations.data.batching import TokenBatchSampler
from variations.data.packing import Lengths
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data import corpora
from variations.tasks.translation.data.subwords import TRAINED_ON, subwords_for
from variations.tasks.translation.data.textfiles import find, iterate_pairs
from variations.tasks.translation.data.tokens import TokenPairs, tokens_for

WMT_PAIRS = 4_500_000
EUROPARL_WORDS = 47_236_849 / 2_176_537 + 53_974_751 / 2_218_201
"""Words of a German and an English sentence of Europarl v7, by the sizes stated on statmt.org/europarl."""
GOAL_MINUTES = 30
BUDGET = 4096
"""Padded tokens per batch."""
PARTS = {
    "check": "reads, hashes and checks the text",
    "sub-words": "trains the vocabulary",
    "encode": "writes the memory-mapped token store",
    "batches": f"plans two epochs of batches of {BUDGET:,} sub-words",
    "open again": "what a later run does, with everything in the cache",
}
FIRST = ("check", "sub-words", "encode", "batches")
"""What the first run on a corpus does."""


@dataclass
class Text:
    """A corpus to be measured, as files in `root`."""

    root: Path
    source: str
    target: str
    stems: tuple[str, str, str] = ("train", "valid", "test")

    def pairs(self, stem: str) -> Iterator[tuple[str, str]]:
        """The pairs of one of its sets. Raises SystemExit if files are missing."""
        paths = [find(self.root, stem, language) for language in (self.source, self.target)]
        if paths[0] is None or paths[1] is None:
            raise SystemExit(f"{self.root} lacks {stem}.{self.source} or {stem}.{self.target}, plain or with .gz")
        return iterate_pairs(paths[0], paths[1])

    def part(self, folder: Path, pairs: int | None) -> int:
        """Write the first training pairs, and the dev and test text, to `folder`; returns the words of the training."""
        folder.mkdir(parents=True)
        words = 0
        for stem, name in zip(self.stems, ("train", "valid", "test"), strict=True):
            limit = pairs if name == "train" else None
            with (folder / f"{name}.{self.source}").open("w") as a, (folder / f"{name}.{self.target}").open("w") as b:
                for source, target in islice(self.pairs(stem), limit):
                    a.write(f"{source}\n")
                    b.write(f"{target}\n")
                    words += (len(source.split()) + len(target.split())) * (name == "train")
        return words


def invented(folder: Path, pairs: int) -> Text:
    """Sentences of the built-in grammar, if there is no corpus."""
    from toy_corpus import generate

    folder.mkdir(parents=True)
    for stem, made in zip(("train", "valid", "test"), generate(pairs, 100, 100).values(), strict=True):
        for side, language in enumerate(("en", "de")):
            (folder / f"{stem}.{language}").write_text("".join(f"{pair[side]}\n" for pair in made), encoding="utf-8")
    return Text(folder, "en", "de")


def part(name: str, data: DataConfig) -> tuple[float, int]:
    """Seconds and bytes of one part of the preparation, for a fresh process; earlier parts are in the cache."""
    return grown(_work(name, data))


def _work(name: str, data: DataConfig) -> Callable[[], object]:
    import sentencepiece  # noqa: F401  it is not the library's start that is measured

    if name == "open again":
        return lambda: epochs(*_lengths(_tokens(data)))
    if name == "check":
        return lambda: corpora.load(data, progress=False)
    corpus = corpora.load(data, progress=False)
    if name == "sub-words":
        return lambda: subwords_for(corpus, data, progress=False)
    if name == "encode":
        subwords = subwords_for(corpus, data, progress=False)
        return lambda: tokens_for(corpus.train, subwords, data, drop_long=True, progress=False)
    lengths = _lengths(_tokens(data))
    return lambda: epochs(*lengths)


def _tokens(data: DataConfig) -> TokenPairs:
    corpus = corpora.load(data, progress=False)
    return tokens_for(corpus.train, subwords_for(corpus, data, progress=False), data, drop_long=True, progress=False)


def _lengths(tokens: TokenPairs) -> tuple[Lengths, Lengths]:
    return tokens.source_lengths, tokens.target_lengths


def epochs(source: Lengths, target: Lengths) -> None:
    """Plan the batches of two epochs from the pairs' lengths."""
    TokenBatchSampler(source, target, BUDGET).plan(1)  # the sampler plans epoch 0 itself


def random_lengths(pairs: int) -> tuple[Lengths, Lengths]:
    """Log-normal, some 26 sub-words per side, at most 256; the sides correlate."""
    rng = np.random.default_rng(1)
    source = rng.lognormal(np.log(22), 0.6, pairs)
    target = source * rng.lognormal(0, 0.2, pairs)
    return source.clip(2, 256).astype(np.int32), target.clip(2, 256).astype(np.int32)


def random_epochs(pairs: int) -> tuple[float, int]:
    """Seconds and bytes of planning two epochs of random lengths, for a fresh process."""
    lengths = random_lengths(pairs)
    return grown(lambda: epochs(*lengths))


def batches(sizes: Sequence[int]) -> Axis:
    """Measure the plan of epochs alone, up to all of WMT's pairs."""
    what = (
        f"Batches of two epochs planned from random lengths, {BUDGET:,} sub-words per batch; nothing is extrapolated."
    )
    axis = Axis("pairs", "pairs, epoch plans", what, ("pairs", 1.0), [line := Line("")])
    for pairs in sizes:
        _put(line, pairs, apart(random_epochs, pairs))
    return axis


def preparation(text: Text, pairs: int, vocabulary: int, folder: Path, console: Console) -> tuple[Axis, float]:
    """Measure every part at an eighth, a quarter, a half and all of `pairs`; also returns words per pair."""
    lines = {name: Line(name) for name in PARTS}
    sizes = [pairs // 8, pairs // 4, pairs // 2, pairs]
    for size in track(sizes, "preparing data", console=console, disable=not console.is_terminal):
        root = folder / f"{size}-pairs"
        words = text.part(root, size)
        data = DataConfig(name="scaling", kind="folder", source=text.source, target=text.target, vocabulary=vocabulary)
        data.root, data.cache = str(root), str(folder / f"{size}-cache")
        for name, line in lines.items():
            _put(line, size, apart(part, name, data))
    what = (
        f"The first pairs of the corpus, {words / pairs:.1f} words per pair (both sides), {vocabulary:,} "
        f"sub-words. {'; '.join(f'*{name}* {does}' for name, does in PARTS.items())}. Each part once, in a new process."
    )
    axis = Axis("pairs", "pairs, data preparation", what, ("pairs", 1.0), list(lines.values()))
    return axis, words / pairs


def _put(line: Line, x: int, found: tuple[float, int]) -> None:
    line.seconds[x], line.peak[x], line.work[x] = [found[0]], float(found[1]), float(x)


def extrapolated(line: Line, pairs: float) -> tuple[float, float]:
    """Seconds and bytes at `pairs`: time by the fitted exponent, at least 1; memory by the last two sizes' slope."""
    xs = sorted(line.seconds)
    last, before = xs[-1], xs[-2]
    slope = max(0.0, (line.peak[last] - line.peak[before]) / (last - before))
    seconds = line.time[last] * (pairs / last) ** max(1.0, exponent(line.time))
    return seconds, line.peak[last] + slope * (pairs - last)


def outlook(axis: Axis, plan: Axis, words: float) -> list[str]:
    """The table for 4.5M pairs, as long as those measured and as long as Europarl's."""
    lines = {line.name: line for line in axis.lines}
    most = max(plan.lines[0].seconds)
    planned = extrapolated(plan.lines[0], WMT_PAIRS)
    columns: list[dict[str, tuple[float, float]]] = []
    for longer in (1.0, EUROPARL_WORDS / words):
        found = {name: extrapolated(line, WMT_PAIRS * longer) for name, line in lines.items()}
        trained = extrapolated(lines["sub-words"], min(WMT_PAIRS, TRAINED_ON) * longer)
        # The text is read twice, which takes less than checking it.
        found["sub-words"] = trained[0] + 2 * found["check"][0], trained[1]
        columns.append(found | {"batches": planned})
    text = [
        f"### {WMT_PAIRS / 1e6:.1f}M pairs",
        "",
        "Time by the fitted exponent, at least 1; memory by the slope between the two largest sizes. Sub-words are "
        f"trained on at most {TRAINED_ON:,} pairs; the rest is only read. The plan of epochs is "
        + ("measured" if most >= WMT_PAIRS else f"extrapolated from {most:,} pairs")
        + f" with random lengths. Sentences as long as Europarl v7's ({EUROPARL_WORDS:.0f} words per pair) count as "
        f"{EUROPARL_WORDS / words:.2f} of those measured.",
        "",
        "| part | pairs like these, minutes | MB | as long as Europarl's, minutes | MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in PARTS:
        cells = " | ".join(f"{c[name][0] / 60:.1f} | {c[name][1] / MB:,.0f}" for c in columns)
        text.append(f"| {name} | {cells} |")
    totals = [sum(c[name][0] for name in FIRST) / 60 for c in columns]
    peaks = [max(c[name][1] for name in FIRST) / MB for c in columns]
    cells = " | ".join(f"**{minutes:.1f}** | {peak:,.0f}" for minutes, peak in zip(totals, peaks, strict=True))
    met = "met" if max(totals) <= GOAL_MINUTES else "missed"
    return [
        *text,
        f"| first run: {', '.join(FIRST)} | {cells} |",
        "",
        f"Goal: at most {GOAL_MINUTES} minutes on 2 cores, in bounded memory: {met}.",
        "",
    ]
