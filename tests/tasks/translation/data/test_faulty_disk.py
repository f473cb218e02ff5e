"""A disk that fails at the n-th write of the preparation: one sentence, no partial files, and then the same data."""

import errno
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import faulty_disk
import pytest
from forking import forked

import torture_preparation as torture
from variations.configuration.compose import compose_run
from variations.system.errors import ExitCode
from variations.tasks.translation.data.module import TranslationData

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the tests fork")
NO_FURTHER = 98
"""Exit code of a process that ends before the failing operation."""
Prepared = dict[str, str]
"""SHA-256 of every file in the cache."""


def prepare(cache: Path) -> None:
    words = ["data=wmt14_en_de", "data.vocabulary=300", f"data.cache={cache}", "trainer.progress=false", "logger=none"]
    TranslationData(compose_run([*words, f"runs={cache.parent / 'runs'}"])).prepare_data()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """The result of an undisturbed preparation: archives downloaded, unpacked, joined, surveyed and stored as ids."""
    import sentencepiece  # noqa: F401 - import once, not in every process

    place = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torture, "PAUSE", 0.0)
        with torture.served(torture.corpora()):
            assert forked(lambda: prepare(place / "cache"), place / "log") == 0, (place / "log").read_text()
            yield torture.contents(place / "cache")


def faults(prepared: Prepared, place: Path, error: int, numbers: Iterator[int]) -> Iterator[str]:
    """Yield the faults found when the disk fails from each of these operations on, and after a second launch."""
    cache, log = place / "cache", place / "log"
    for at in numbers:
        cache.mkdir()
        where = f"{errno.errorcode[error]} from operation {at} on"

        def refused(at: int = at) -> None:
            with faulty_disk.failing(cache, at=at, error=error) as done:
                prepare(cache)
            raise SystemExit(NO_FURTHER if len(done) < at else "nobody noticed")

        if (code := forked(refused, log)) == NO_FURTHER:
            return
        told = log.read_text()
        if code != ExitCode.FAILED or not re.fullmatch(r"error: .*[.]\n", told):
            yield f"{where}: exit code {code}: {told[-2500:]}"
        if left := [path.name for path in cache.rglob("*") if re.search(r"[.]tmp(-|$)", path.name)]:
            yield f"{where}: left over: {', '.join(left)}"
        if forked(lambda: prepare(cache), log):
            yield f"{where}, then: {log.read_text()[-2500:]}"
        elif torture.contents(cache) != prepared:
            yield f"{where}, then: other contents or remnants"
        shutil.rmtree(cache)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "at"), [(errno.ENOSPC, 30), (errno.EIO, 60), (errno.EROFS, 195)])
def test_a_refusal_is_told_in_a_sentence_and_the_same_command_goes_on(
    error: int, at: int, prepared: Prepared, tmp_path: Path
) -> None:
    assert list(faults(prepared, tmp_path, error, iter([at]))) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_refusal_at_any_write(error: int, prepared: Prepared, tmp_path: Path) -> None:
    from itertools import count

    assert list(faults(prepared, tmp_path, error, count(1))) == []
