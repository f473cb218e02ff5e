"""WMT 2014 news translation, English with German or French, from statmt.org.

Training text as in Vaswani et al. 2017, section 5.1 (4.5M and 36M pairs): Europarl v7, Common Crawl and News
Commentary v9, for French also the United Nations corpus and the 10^9 corpus; dev newstest2013, test newstest2014 (all
3,003 sentences). Nothing is filtered out except pairs with a side that is not UTF-8; they are counted.

Checksums. SHA-256 and sizes of Europarl, Common Crawl, News Commentary and dev.tgz are those of TensorFlow Datasets,
the MD5 of test-full.tgz is sacreBLEU's. For the two archives that only French needs, no checksum is published: they
are trusted on first use, and their SHA-256 is recorded beside the file and in the data card.
"""

import html
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.data.archives import extract
from variations.data.download import fetch, origin
from variations.data.entry import told_if_cache_unwritable
from variations.data.transfer import Remote, require_space
from variations.store.atomic import read_json, write_json
from variations.system.errors import DataError
from variations.system.terminal import status_line
from variations.tasks.translation.data.textfiles import iterate, zipped

STATMT = "http://www.statmt.org/"
SOURCES_FILE = "sources.json"


@dataclass(frozen=True)
class Part:
    """A member of an archive for each language; {p} is the pair (de-en), {l} the language, {o} the non-English one."""

    archive: Remote
    member: str
    target_member: str | None = None
    """The target side's member, if its name differs."""


EUROPARL = Part(
    Remote(
        STATMT + "wmt13/training-parallel-europarl-v7.tgz",
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
        657_632_379,
    ),
    "training/europarl-v7.{p}.{l}",
)
COMMON_CRAWL = Part(
    Remote(
        STATMT + "wmt13/training-parallel-commoncrawl.tgz",
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
        918_311_367,
    ),
    "commoncrawl.{p}.{l}",
)
NEWS_COMMENTARY = Part(
    Remote(
        STATMT + "wmt14/training-parallel-nc-v9.tgz",
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        80_418_416,
    ),
    "training/news-commentary-v9.{p}.{l}",
)
UNITED_NATIONS = Part(Remote(STATMT + "wmt13/training-parallel-un.tgz"), "un/undoc.2000.{p}.{l}")
GIGA = Part(Remote(STATMT + "wmt10/training-giga-fren.tar"), "giga-fren.release2.fixed.{l}.gz")
NEWSTEST2013 = Part(
    Remote(
        "http://data.statmt.org/wmt19/translation-task/dev.tgz",  # contains the dev sets of all years
        "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
        38_654_961,
    ),
    "dev/newstest2013.{l}",
)
NEWSTEST2014 = Part(
    Remote(STATMT + "wmt14/test-full.tgz", md5="a8cd784e006feb32ac6f3d9ec7eb389a"),
    "test-full/newstest2014-{o}en-src.{l}.sgm",
    "test-full/newstest2014-{o}en-ref.{l}.sgm",
)
TRAIN = {
    "de": (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY),
    "fr": (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY, UNITED_NATIONS, GIGA),
}
SEGMENT, TAG = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE), re.compile(r"</?[A-Za-z][^>]*>")
BAD = "\udc80"
"""Replaces a line that is not UTF-8: a lone surrogate, which no UTF-8 text can contain."""
SPACE = {"de": 6_000_000_000, "fr": 40_000_000_000}
"""Disk space in bytes for archives, unpacked parts and the whole text, rounded up."""


def prepare(cache: Path, source: str, target: str, *, progress: bool = True) -> Path:
    """Prepare train, newstest2013 and newstest2014 as plain text, unless this is done; return their folder.

    Archives stay in `<cache>/downloads/wmt14` and may be deleted afterwards; each is unpacked, appended to the text,
    and its parts are deleted before the next.

    Raises:
        DataError: other languages, or parts of different length.
        UserError: see `download.fetch` and `archives.extract`.
    """
    from filelock import FileLock

    other = other_language(source, target)
    folder = cache / "wmt14" / f"{source}-{target}"
    if (folder / SOURCES_FILE).is_file():
        return folder
    require_space(folder, SPACE[other], f"Preparing WMT 2014 {source}-{target}")
    with told_if_cache_unwritable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            if not (folder / SOURCES_FILE).is_file():
                made = folder.parent / f".{folder.name}.tmp"
                for remnant in (made, folder):  # left by a process that died: this one holds the lock
                    shutil.rmtree(remnant, ignore_errors=True)
                made.mkdir()
                try:
                    _build(made, cache / "downloads" / "wmt14", source, target, progress)
                    made.replace(folder)
                finally:
                    shutil.rmtree(made, ignore_errors=True)
    return folder


def other_language(source: str, target: str) -> str:
    """The language beside English. Raises DataError if WMT 2014 lacks the pair."""
    other = target if source == "en" else source
    if "en" not in (source, target) or other not in TRAIN:
        raise DataError(
            f"data=wmt14 has no pair {source}-{target}: data.source and data.target must be English (en) and German "
            "(de) or French (fr)."
        )
    return other


def sources(folder: Path) -> list[dict[str, Any]]:
    """What the text of a prepared folder was made from: archives with their checksums, pairs, and pairs left out."""
    listed: list[dict[str, Any]] = read_json(folder / SOURCES_FILE)
    return listed


def read_sgm(path: Path) -> list[str]:
    """The segments of an SGM file in their order, without tags, with entities resolved and single spaces.

    SGM is not XML: the files contain unescaped &, and some closing tags are missing.
    """
    segments = SEGMENT.findall("\n".join(iterate(path)))
    if not segments:
        raise DataError(f"{path} contains no <seg>: it is not an SGM test set.")
    return [" ".join(html.unescape(TAG.sub("", segment)).split()) for segment in segments]


def _build(made: Path, downloads: Path, source: str, target: str, progress: bool) -> None:
    """Fill the folder `made`."""
    other = other_language(source, target)
    sets = [("train", part) for part in TRAIN[other]]
    sets += [("newstest2013", NEWSTEST2013), ("newstest2014", NEWSTEST2014)]
    listed = []
    for stem, part in sets:
        archive = _fetched(part, downloads, [entry for _, entry in sets], progress)
        unpacked = made / "parts"
        names = [_member(part, language, other, side) for side, language in enumerate((source, target))]
        with status_line(f"Unpacking {archive.name} and appending it to {stem}", progress):
            extract(archive, unpacked, names)
            written, left_out = _append(
                [unpacked / name for name in names], [made / f"{stem}.{language}" for language in (source, target)]
            )
        shutil.rmtree(unpacked)
        listed.append({"set": stem, **origin(archive), "pairs": written, "not_utf8": left_out})
    (made / "parts.lock").unlink(missing_ok=True)
    write_json(made / SOURCES_FILE, listed)


def _fetched(part: Part, downloads: Path, parts: Iterable[Part], progress: bool) -> Path:
    remote = part.archive
    manual = (
        f"Without a network: save {', '.join(entry.archive.url for entry in parts)} in {downloads}, or give a folder "
        "of text with data.root=DIR (train, newstest2013 and newstest2014 with .en and .de or .fr, plain or .gz)."
    )
    path = downloads / remote.url.rsplit("/", 1)[1]
    return fetch(remote.url, path, remote.sha256, remote.size, md5=remote.md5, manual=manual, progress=progress)


def _member(part: Part, language: str, other: str, side: int) -> str:
    pattern = part.target_member if side and part.target_member else part.member
    return pattern.format(p=f"{other}-en", l=language, o=other)


def _append(parts: list[Path], texts: list[Path]) -> tuple[int, int]:
    """Add the lines of `parts` (source, target) to `texts`; returns pairs written and pairs left out."""
    written = left_out = 0
    with ExitStack() as stack:
        files = [stack.enter_context(text.open("a", encoding="utf-8", newline="\n")) for text in texts]
        for pair in zipped(parts[0], parts[1], *(_lines(part) for part in parts)):
            if BAD in pair:
                left_out += 1
                continue
            written += 1
            for file, line in zip(files, pair, strict=True):
                file.write(line + "\n")
    return written, left_out


def _lines(path: Path) -> Iterator[str]:
    return iter(read_sgm(path)) if path.suffix == ".sgm" else iterate(path, bad=BAD)
