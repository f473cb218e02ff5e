"""Corpora: what each kind finds, generates or downloads, and how it reports faulty text."""

import gzip
import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loopback import packed

from variations.commands.preflight import preflight
from variations.configuration.compose import compose_run, to_dict
from variations.configuration.faults import faults
from variations.configuration.tasks import named
from variations.data.download import Patience
from variations.data.transfer import Remote
from variations.store.differences import foreseen
from variations.system.errors import DataError, UserError
from variations.tasks.translation.config import DataConfig, TranslationConfig
from variations.tasks.translation.data import corpora, multi30k, wmt14
from variations.tasks.translation.data.corpora import Corpus, TextPair, load, tokenised
from variations.tasks.translation.data.textfiles import find

LOCAL = Path(os.environ.get("VARIATIONS_TEST_DATA", Path(__file__).parents[5] / "shared" / "data"))
TEXT = {
    "train.en": "A dog.\nA cat.\nA horse.\n",
    "train.de": "Ein Hund.\nEine Katze.\nEin Pferd.\n",
    "valid.en": "Two dogs.\n",
    "valid.de": "Zwei Hunde.\n",
    "test.en": "Two cats.\n",
    "test.de": "Zwei Katzen.\n",
}


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (root / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return root


def folder(tmp_path: Path, **changes: Any) -> DataConfig:
    settings = {"name": "files", "root": str(tmp_path / "text"), "cache": str(tmp_path / "cache"), **changes}
    return DataConfig(kind="folder", **settings)


def fault(tmp_path: Path, files: dict[str, str | bytes], **changes: Any) -> str:
    write(tmp_path / "text", {**TEXT, **files})
    with pytest.raises(DataError) as caught:
        load(folder(tmp_path, **changes), progress=False)
    return str(caught.value)


def test_folder_of_files_is_read(tmp_path: Path) -> None:
    write(tmp_path / "text", TEXT)
    corpus = load(folder(tmp_path), progress=False)
    assert corpus.train.read() == (["A dog.", "A cat.", "A horse."], ["Ein Hund.", "Eine Katze.", "Ein Pferd."])
    assert list(corpus.dev.pairs()) == [("Two dogs.", "Zwei Hunde.")]
    assert (corpus.source_language, corpus.target_language, corpus.name) == ("en", "de", "files")
    assert corpus.others == {}


def test_languages_and_stems_choose_the_files(tmp_path: Path) -> None:
    write(tmp_path / "text", {**TEXT, "news.en": "News.\n", "news.de": "Nachrichten.\n"})
    corpus = load(folder(tmp_path, source="de", target="en", test="news"), progress=False)
    assert corpus.test.read() == (["Nachrichten."], ["News."])


def test_plain_and_compressed_copies_have_one_fingerprint(tmp_path: Path) -> None:
    plain = load(folder(write(tmp_path / "a", {}), root=str(write(tmp_path / "a" / "text", TEXT))), progress=False)
    zipped = {f"{name}.gz": content for name, content in TEXT.items()}
    packed = load(folder(tmp_path / "b", root=str(write(tmp_path / "b" / "text", zipped))), progress=False)
    assert packed.train.read() == plain.train.read()
    assert packed.fingerprint() == plain.fingerprint()
    unsurveyed = Corpus("x", "en", "de", plain.train, plain.dev, plain.test)
    assert unsurveyed.fingerprint() == plain.fingerprint()
    changed = {**TEXT, "train.de": TEXT["train.de"].replace("Pferd", "Esel")}
    other = load(folder(tmp_path / "c", root=str(write(tmp_path / "c" / "text", changed))), progress=False)
    assert other.fingerprint() != plain.fingerprint()


def test_only_newlines_end_lines(tmp_path: Path) -> None:
    odd = "one\u2028still one\x0b\x0c\x85 one\rone\r\ntwo"  # no final newline
    write(tmp_path / "text", {**TEXT, "test.en": b"\xef\xbb\xbf" + odd.encode(), "test.de": "eins\r\nzwei\r\n"})
    sources, targets = load(folder(tmp_path), progress=False).test.read()
    assert sources == ["one\u2028still one\x0b\x0c\x85 one\rone", "two"]
    assert targets == ["eins", "zwei"]


def test_long_files_are_read_across_block_borders(tmp_path: Path) -> None:
    lines = [f"Zeile {number} äöü " * (number % 50) for number in range(5000)]  # 2.4 MB
    (tmp_path / "long").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert TextPair("x", tmp_path / "long", tmp_path / "long").read() == (lines, lines)


def test_relative_root_and_home_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "text", TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for root in ("text", "~/text"):
        corpus = load(folder(tmp_path, root=root, cache="~/cache"), progress=False)
        assert corpus.train.source == tmp_path / "text" / "train.en"
    assert (tmp_path / "cache" / "surveys").is_dir()


def test_unchanged_files_are_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "text", TEXT)
    first = load(folder(tmp_path), progress=False)
    calls: list[Path] = []
    survey = corpora.survey
    monkeypatch.setattr(
        corpora, "survey", lambda *paths, **options: calls.append(paths[0]) or survey(*paths, **options)
    )
    again = load(folder(tmp_path), progress=False)
    assert calls == []
    assert again.surveys == first.surveys
    write(tmp_path / "text", {"train.en": "A dog.\nA cat.\nA donkey.\n"})
    load(folder(tmp_path), progress=False)
    assert len(calls) == 3


def test_damaged_cache_of_checks_is_made_anew(tmp_path: Path) -> None:
    write(tmp_path / "text", TEXT)
    first = load(folder(tmp_path), progress=False)
    for path in (tmp_path / "cache" / "surveys").iterdir():
        path.write_text('{"train": {"pairs": ')
    assert load(folder(tmp_path), progress=False).surveys == first.surveys


def test_files_of_different_length_are_named_with_both_counts(tmp_path: Path) -> None:
    message = fault(tmp_path, {"train.de": "Ein Hund.\nEine Katze.\n"})
    text = tmp_path / "text"
    assert message == (
        f"The files differ in length: {text / 'train.en'} has 3 lines, {text / 'train.de'} has 2; "
        "each line needs its translation at the same line of the other file."
    )
    message = fault(tmp_path, {"train.de": TEXT["train.de"] + "Ein Esel.\nEin Schaf.\n"})
    assert "train.en has 3 lines" in message
    assert "train.de has 5;" in message
    with pytest.raises(DataError, match=r"has 3 lines.* has 5;"):
        TextPair("train", text / "train.en", text / "train.de").read()


@pytest.mark.parametrize("name", ["train.en", "valid.de", "test.en"])
def test_empty_file_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "text" / name
    assert fault(tmp_path, {name: ""}) == f"{path} is empty: give a file with one sentence per line."


def test_both_files_empty(tmp_path: Path) -> None:
    assert "train.en and" in fault(tmp_path, {"train.en": "", "train.de": ""})
    with pytest.raises(DataError, match=r"train\.en is empty"):
        TextPair("train", tmp_path / "text" / "train.en", tmp_path / "text" / "train.de").read()


def test_invalid_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    message = fault(tmp_path, {"train.de": "Ein Hund.\nEine Kätze.\n".encode() + "Ein Käfer.\n".encode("latin-1")})
    assert message == (
        f"{tmp_path / 'text' / 'train.de'}, line 3: not valid UTF-8 (byte 6 of the line is 0xe4); "
        "convert the file to UTF-8."
    )


def test_invalid_utf8_far_into_a_compressed_file_is_named_with_its_line(tmp_path: Path) -> None:
    text = b"Ein Hund am Morgen.\n" * 200_000  # 4 MB
    write(tmp_path, {"x.en.gz": text + b"\n", "x.de.gz": text + b"Ein K\xe4fer\n"})
    with pytest.raises(DataError, match=r"x\.de\.gz, line 200001: not valid UTF-8 \(byte 6 of the line is 0xe4\)"):
        TextPair("x", tmp_path / "x.en.gz", tmp_path / "x.de.gz").read()


def test_utf16_is_named_as_not_utf8(tmp_path: Path) -> None:
    assert "line 1: not valid UTF-8 (byte 1 of the line is 0xff)" in fault(
        tmp_path, {"train.de": b"\xff\xfe" + "Ein Hund.\n".encode("utf-16-le")}
    )


def test_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    text = write(tmp_path / "text", {**TEXT})
    (text / "train.de").unlink()
    (text / "train.de.gz").write_bytes(gzip.compress(os.urandom(1000))[:500])
    with pytest.raises(DataError, match=r"train\.de\.gz is not a complete gzip file"):
        load(folder(tmp_path), progress=False)


def test_missing_files_are_all_named_with_what_is_there(tmp_path: Path) -> None:
    assert fault(tmp_path, {}, target="fr", dev="dev") == (
        f"{tmp_path / 'text'} lacks train.fr (data.train=train, data.target=fr), "
        "dev.en (data.dev=dev, data.source=en), dev.fr (data.dev=dev, data.target=fr), "
        "test.fr (data.test=test, data.target=fr), plain or with .gz. "
        "The folder contains test.de, test.en, train.de, train.en, valid.de, valid.en. "
        "Set data.root, data.source, data.target, data.train, data.dev or data.test to match."
    )


def test_missing_root_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.root=None is not a folder"):
        load(folder(tmp_path, root=None), progress=False)
    with pytest.raises(DataError, match=r"data\.root=nowhere is not a folder \(.*/nowhere\)"):
        load(folder(tmp_path, root="nowhere"), progress=False)


def test_test_pairs_in_the_training_text_are_counted_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {
        "train.en": "A dog.\nA cat.\nA dog.\nTwo dogs.\n",
        "train.de": "Ein Hund.\nEine Katze.\nEin Hund.\nZwei Köter.\n",
        "test.en": "A dog.\nA bird.\nA cat.\nA dog.\n",
        "test.de": "Ein Hund.\nEin Vogel.\nEine Katze.\nEin Hund.\n",
    }
    write(tmp_path / "text", {**TEXT, **files})
    with caplog.at_level(logging.WARNING):
        corpus = load(folder(tmp_path, name="leaky"), progress=False)
        load(folder(tmp_path, name="leaky"), progress=False)
    assert corpus.surveys["train"].overlap == {"dev": 0, "test": 3}
    assert corpus.surveys["train"].duplicates == 1
    assert [record.getMessage() for record in caplog.records] == [
        "leaky: 3 of 4 pairs of test.en also occur in the training text; scores on it are too high."
    ]
    part = load(folder(tmp_path, name="leaky", train_pairs=1), progress=False)  # the first pair alone is trained on
    assert part.surveys["train"].overlap == {"dev": 0, "test": 2}
    assert part.fingerprint() == corpus.fingerprint()


def test_pairs_with_equal_sub_words_are_the_same_pair(tmp_path: Path) -> None:
    """White space, zero-width characters and forms of Unicode do not reach the network; case may."""
    files = {
        "train.en": "The caf\u00e9.\nA cat.\nA dog.\n",
        "train.de": "Das Caf\u00e9.\nEine Katze.\nEin Hund.\n",
        "test.en": "The\u200bcafe\u0301.\ufeff\nA  cat. \nA DOG.\nA bird.\n",
        "test.de": "Das Cafe\u0301.\n Eine Katze.\nEIN HUND.\nEin Vogel.\n",
    }
    write(tmp_path / "text", {**TEXT, **files})
    for lowercase, count in ((False, 2), (True, 3)):
        corpus = load(folder(tmp_path, name="leaky", lowercase=lowercase), progress=False)
        assert corpus.surveys["train"].overlap["test"] == count


def test_a_dev_text_that_is_also_the_test_text_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "text", TEXT)
    with caplog.at_level(logging.WARNING):
        corpus = load(folder(tmp_path, name="twice", test="valid"), progress=False)
        assert load(folder(tmp_path, name="twice", test="valid"), progress=False).surveys == corpus.surveys
    pairs = corpus.surveys["dev"].pairs
    assert corpus.surveys["dev"].overlap == {"test": pairs}
    assert [record.getMessage() for record in caplog.records] == [
        f"twice: {pairs} of {pairs} pairs of valid.en also occur in the dev text; it is no independent "
        "test of what dev scores have chosen."
    ]


def test_blank_pairs_are_counted_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {"train.en": "A dog.\n \nA horse.\n\u3000\n", "train.de": "Ein Hund.\nEine Katze.\n\n\n", "valid.de": "\n"}
    write(tmp_path / "text", {**TEXT, **files})
    with caplog.at_level(logging.WARNING):
        corpus = load(folder(tmp_path, name="gaps"), progress=False)
    assert (corpus.surveys["train"].pairs, corpus.surveys["train"].blank) == (4, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "gaps: 3 pairs of train.en and train.de have a blank side (lines 2, 3, 4); left out of training.",
        "gaps: 1 pair of valid.en and valid.de has a blank side (line 1); kept, and scored as it is.",
    ]
    assert len(corpus.train.read()[0]) == 4  # positions remain line numbers


def test_a_tokenised_dev_or_test_text_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = "Ein Hund .\nEine Katze .\n"
    write(tmp_path / "text", {**TEXT, "valid.en": "A dog.\nA cat.\n", "valid.de": lines})
    with caplog.at_level(logging.WARNING):
        load(folder(tmp_path, name="apart"), progress=False)
    assert [record.getMessage() for record in caplog.records] == [
        "apart: valid.de looks tokenised already (lines end in ' .'); `bleu`, `bleu_lc` and `chrf` are meant for raw "
        "text: detokenise the files."
    ]


def test_a_sweep_tells_of_a_tokenised_text_before_it_starts_and_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "text", {**TEXT, "test.de": "Ein Hund .\n"})
    data = folder(tmp_path, name="beforehand")
    configs = {"base": TranslationConfig(data=data), "other": TranslationConfig(data=replace(data, vocabulary=50))}
    (told,) = foreseen(configs)
    assert told.startswith("base, other: beforehand: test.de looks tokenised already (lines end in ' .'); `bleu`")
    assert told.endswith("detokenise the files.")
    with caplog.at_level(logging.WARNING):
        corpus = load(data, progress=False)
    assert caplog.records == []
    assert list(tokenised(corpus)) == ["test"]  # for the result, so that tables have it, too


def built_in(tmp_path: Path, **changes: Any) -> Corpus:
    return load(DataConfig(cache=str(tmp_path), **changes), progress=False)


def test_the_built_in_corpus_is_the_one_that_all_stored_runs_were_made_with(tmp_path: Path) -> None:
    corpus = built_in(tmp_path)
    assert {name: found.pairs for name, found in corpus.surveys.items()} == {"train": 20_000, "dev": 500, "test": 500}
    assert corpus.surveys["train"].overlap == {"dev": 0, "test": 0}
    assert all((found.blank, found.duplicates) == (0, 0) for found in corpus.surveys.values())
    # The value in data cards since the project's first table.
    assert corpus.fingerprint() == "d03189bae264d85a6a00ec017b4cb79fddaaab1b2fdb75d6374feec62a9372f5"


@pytest.mark.slow
def test_the_built_in_corpus_is_cut_to_the_wanted_pairs_and_read_in_both_directions(tmp_path: Path) -> None:
    whole, few = built_in(tmp_path), built_in(tmp_path, train_pairs=200)
    assert few.train.read() == tuple(side[:200] for side in whole.train.read())
    assert few.test.read() == whole.test.read()
    backwards = built_in(tmp_path, train_pairs=200, source="de", target="en")
    assert backwards.train.read() == few.train.read()[::-1]
    assert len(list((tmp_path / "toy").glob("*/meta.json"))) == 2  # both directions share one entry


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "fr"}, "data=toy has no pair en-fr"),
        ({"seed": 2}, "data=toy has 20,000 training pairs, generated with data.seed=1: for others"),
        (
            {"train_pairs": 20_001},
            "data=toy has 20,000 training pairs, generated with data.seed=1: for others",
        ),
    ],
)
def test_what_the_built_in_corpus_does_not_have_is_said_before_any_work(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        built_in(tmp_path, **changes)
    assert [text for text in faults(TranslationConfig(data=DataConfig(**changes))) if message in text]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_multi30k_is_read_from_a_local_copy() -> None:
    if not (LOCAL / "multi30k").is_dir():
        pytest.skip(f"no local copy of Multi30k in {LOCAL}")
    data = DataConfig(
        name="multi30k", kind="multi30k", root=str(LOCAL / "multi30k"), dev="val", test="test_2016_flickr"
    )
    corpus = load(data, progress=False)
    counts = {name: found.pairs for name, found in corpus.surveys.items()}
    assert counts == {
        "train": 29_000,
        "dev": 1_014,
        "test": 1_000,
        "test_2017_flickr": 1_000,
        "test_2017_mscoco": 461,
        "test_2018_flickr": 1_071,
    }
    assert corpus.test.read()[1][0] == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."
    assert corpus.surveys["train"].duplicates == 3
    for path in (LOCAL / "multi30k").iterdir():
        stem, language, _ = path.name.split(".")
        published = multi30k.remote(stem, language)
        text = gzip.decompress(path.read_bytes())
        assert hashlib.sha256(text).hexdigest() == multi30k.TEXTS[path.name.removesuffix(".gz")]
        assert (published.size, published.sha256) == (
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )


@pytest.mark.slow
def test_newsmix_is_read_from_a_local_copy() -> None:
    if not (LOCAL / "newsmix").is_dir():
        pytest.skip(f"no local copy of newsmix in {LOCAL}")
    corpus = load(DataConfig(name="newsmix", kind="folder", root=str(LOCAL / "newsmix")), progress=False)
    assert [corpus.surveys[name].pairs for name in ("train", "dev", "test")] == [217_135, 3_000, 3_003]
    assert corpus.surveys["train"].overlap == {"dev": 0, "test": 0}
    assert "Tatoeba: CC BY 2.0" in corpus.licence


def small_multi30k(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve a Multi30k with one line per file."""
    sizes = {}
    for stem in multi30k.STEMS:
        for language in multi30k.LANGUAGES:
            body = gzip.compress(f"{stem} in {language}\n".encode(), mtime=0)
            site.files[f"/{stem}.{language}.gz"] = body
            sizes[f"{stem}.{language}"] = (len(body), hashlib.sha256(body).hexdigest())
    monkeypatch.setattr(multi30k, "URL", site.url + "/")
    monkeypatch.setattr(multi30k, "FILES", sizes)


def test_a_text_under_a_name_of_multi30k_is_no_multi30k(tmp_path: Path) -> None:
    """A sentence more, or a copy in lower case, is another test set than the one of the published figures."""
    text = "test_2016_flickr.de"
    assert multi30k.others({text: multi30k.TEXTS[text]}) == []
    assert multi30k.others({text: "0" * 64, "val.en": "1" * 64}) == [text, "val.en"]
    assert multi30k.others({text: multi30k.TEXTS[text], "mytrain.de": "0" * 64}) == ["mytrain.de"]
    task, config = named("translation"), to_dict(compose_run(["variation=multi30k_published/transformer"]))
    kind = task.published(next(iter(config["variation"]["published"])))
    assert task.incomparable(kind, config, {}) is None
    other = {"not_of_multi30k": [text, "val.en"]}
    assert task.misnamed(other) == f"{text}, val.en in data.root were not Multi30k's"
    told = str(task.incomparable(kind, config, other))
    assert told.endswith(f"and {task.misnamed(other)}: not compared")


@pytest.mark.slow
def test_multi30k_is_downloaded_with_its_other_test_sets(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_multi30k(site, monkeypatch)
    data = DataConfig(
        name="multi30k", kind="multi30k", target="fr", dev="val", test="test_2017_flickr", cache=str(tmp_path)
    )
    for _ in range(2):
        corpus = load(data, progress=False)
    assert corpus.train.read() == (["train in en"], ["train in fr"])
    assert corpus.test.read() == (["test_2017_flickr in en"], ["test_2017_flickr in fr"])
    assert list(corpus.others) == ["test_2016_flickr", "test_2017_mscoco", "test_2018_flickr"]
    assert len(site.log) == 12
    assert {entry["checked"] for entry in corpus.origins} == {"published sha256"}


def test_multi30k_names_its_languages_and_files(tmp_path: Path) -> None:
    data = {"name": "multi30k", "kind": "multi30k", "cache": str(tmp_path)}
    with pytest.raises(DataError, match=r"no language 'cs': choose data\.source and data\.target from en, de, fr"):
        load(DataConfig(**data, target="cs", dev="val", test="test_2016_flickr"))
    with pytest.raises(DataError, match="Multi30k has no file 'valid': choose from train, val, test_2016_flickr"):
        load(DataConfig(**data, test="test_2016_flickr"))


def test_without_network_the_user_learns_what_to_save_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi30k, "URL", "http://127.0.0.1:9/")
    monkeypatch.setattr("variations.data.download.PATIENCE", Patience())
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    data = DataConfig(name="multi30k", kind="multi30k", dev="val", test="test_2016_flickr", cache=str(tmp_path))
    with pytest.raises(UserError) as caught:
        load(data, progress=False)
    message = str(caught.value)
    assert "Cannot download http://127.0.0.1:9/train.en.gz: no connection to 127.0.0.1:9" in message
    assert "Without a network: save train.en.gz, train.de.gz, val.en.gz" in message
    assert f"from http://127.0.0.1:9/ in {tmp_path / 'multi30k'}, or name a folder" in message
    assert "data.root=DIR" in message


SGM = """<srcset setid="newstest2014" srclang="any">
<doc docid="1" genre="news">
<p>
<seg id="1">R&D at Standard &amp; Poor's: 3 < 4</seg>
<seg id="2"> Two
  lines </seg>
</p></doc>
</srcset>
"""


def test_sgm_gives_its_segments(tmp_path: Path) -> None:
    (tmp_path / "set.sgm").write_text(SGM)
    assert wmt14.read_sgm(tmp_path / "set.sgm") == ["R&D at Standard & Poor's: 3 < 4", "Two lines"]
    (tmp_path / "none.sgm").write_text("<p>no segments</p>")
    with pytest.raises(DataError, match=r"none\.sgm contains no <seg>"):
        wmt14.read_sgm(tmp_path / "none.sgm")


@pytest.fixture
def small_wmt14(site: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server with a WMT 2014 of a few lines, including French."""

    def both(pattern: str, en: bytes, fr: bytes) -> dict[str, bytes]:
        return {pattern.format("en"): en, pattern.format("fr"): fr}

    zipped = both("giga-fren.release2.fixed.{}.gz", gzip.compress(b"giga\n"), gzip.compress(b"le giga\n"))
    sgm = both("{}", SGM.encode(), SGM.replace("Two", "Deux").encode())
    bodies = {
        "EUROPARL": both("training/europarl-v7.fr-en.{}", b"one\nbad\n", b"un\nm\xe9chant\n"),
        "COMMON_CRAWL": both("commoncrawl.fr-en.{}", "two\u2028more\n".encode(), b"deux\n"),
        "NEWS_COMMENTARY": both("training/news-commentary-v9.fr-en.{}", b"three", b"trois"),
        "UNITED_NATIONS": both("un/undoc.2000.fr-en.{}", b"four\n", b"quatre\n"),
        "GIGA": zipped,
        "NEWSTEST2013": both("dev/newstest2013.{}", b"dev\n", b"le dev\n"),
        "NEWSTEST2014": {
            "test-full/newstest2014-fren-src.en.sgm": sgm["en"],
            "test-full/newstest2014-fren-ref.fr.sgm": sgm["fr"],
        },
    }
    parts = {}
    for name, members in bodies.items():
        part = getattr(wmt14, name)
        site.files[f"/{name}.tgz"] = packed({**members, "unwanted": b"x"})
        parts[name] = wmt14.Part(Remote(f"{site.url}/{name}.tgz"), part.member, part.target_member)
        monkeypatch.setattr(wmt14, name, parts[name])
    monkeypatch.setattr(wmt14, "TRAIN", {"fr": tuple(parts[name] for name in list(bodies)[:5])})
    monkeypatch.setattr(wmt14, "SPACE", {"fr": 1_000_000})
    return site


def wmt(tmp_path: Path, **changes: Any) -> DataConfig:
    settings = {"target": "fr", "dev": "newstest2013", "test": "newstest2014", "cache": str(tmp_path), **changes}
    return DataConfig(name="wmt14_en_fr", kind="wmt14", **settings)


def test_wmt14_is_downloaded_unpacked_and_joined(small_wmt14: Any, tmp_path: Path) -> None:
    for _ in range(2):
        corpus = load(wmt(tmp_path), progress=False)
    assert corpus.train.read() == (
        ["one", "two\u2028more", "three", "four", "giga"],
        ["un", "deux", "trois", "quatre", "le giga"],
    )
    assert corpus.dev.read() == (["dev"], ["le dev"])
    assert corpus.test.read()[1][1] == "Deux lines"
    assert len(small_wmt14.log) == 7
    assert [entry["pairs"] for entry in corpus.origins] == [1, 1, 1, 1, 1, 1, 2]
    assert [entry["not_utf8"] for entry in corpus.origins] == [1, 0, 0, 0, 0, 0, 0]
    assert {entry["checked"] for entry in corpus.origins} == {"first use"}
    folder = tmp_path / "wmt14" / "en-fr"
    assert sorted(path.name for path in folder.iterdir()) == [
        "newstest2013.en",
        "newstest2013.fr",
        "newstest2014.en",
        "newstest2014.fr",
        "sources.json",
        "train.en",
        "train.fr",
    ]


def test_wmt14_without_an_archive_says_which_to_save_where(small_wmt14: Any, tmp_path: Path) -> None:
    del small_wmt14.files["/GIGA.tgz"]
    with pytest.raises(UserError) as caught:
        load(wmt(tmp_path), progress=False)
    assert "GIGA.tgz: the server answers 404 Not Found" in str(caught.value)
    assert f"in {tmp_path / 'downloads' / 'wmt14'}, or give a folder of text with data.root=DIR" in str(caught.value)


def test_wmt14_names_its_pairs_and_the_space_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="data=wmt14 has no pair de-fr"):
        load(wmt(tmp_path, source="de"), progress=False)
    monkeypatch.setattr(wmt14, "SPACE", {"fr": 10**18})
    with pytest.raises(UserError, match=r"Preparing WMT 2014 en-fr needs 1,000,000,000,000 MB"):
        load(wmt(tmp_path), progress=False)


def test_wmt14_is_read_from_a_local_copy(tmp_path: Path) -> None:
    names = {"valid": "newstest2013", "test": "newstest2014", "train": "train"}
    files = {f"{names[stem]}.{language}": TEXT[f"{stem}.{language}"] for stem in names for language in ("en", "de")}
    corpus = load(wmt(tmp_path, target="de", root=str(write(tmp_path / "text", files))), progress=False)
    assert corpus.test.read() == (["Two cats."], ["Zwei Katzen."])


@pytest.mark.slow
def test_files_of_unequal_length_are_a_fault_of_the_command_line(tmp_path):
    for stem, lengths in {"train": (3, 2), "valid": (2, 2), "test": (2, 1)}.items():
        for language, length in zip(("en", "de"), lengths, strict=True):
            (tmp_path / f"{stem}.{language}").write_text("\n".join(["a"] * length), encoding="utf-8")
    lines = ["data=files", f"data.root={tmp_path}"]
    for several in (False, True):
        found = preflight(lines, TranslationConfig, "train", multirun=several, runs_models=True)
        assert [fault.split("; ")[0] for fault in found] == [
            f"The files differ in length: {tmp_path}/train.en has 3 lines, {tmp_path}/train.de has 2",
            f"The files differ in length: {tmp_path}/test.en has 2 lines, {tmp_path}/test.de has 1",
        ]


def test_a_plain_and_a_packed_file_that_differ_are_refused(tmp_path: Path) -> None:
    plain, packed = tmp_path / "train.en", tmp_path / "train.en.gz"
    plain.write_text("one\n")
    packed.write_bytes(gzip.compress(b"one\n"))
    assert find(tmp_path, "train", "en") == plain
    packed.write_bytes(gzip.compress(b"two\n"))
    with pytest.raises(DataError, match=r"train\.en and .*train\.en\.gz contain different texts"):
        find(tmp_path, "train", "en")
