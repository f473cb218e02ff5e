"""Reading configurations block by block gives the same result as reading them whole with the YAML library."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from variations.store.atomic import _AS_WRITTEN, DEEPEST, LARGEST, json_text, read_json, read_yaml, write_yaml
from variations.store.measurements import Measurements
from variations.store.run_folder import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.sequences.stored import packed_counts, read_counts

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=30),
    st.sampled_from(["1e3", "~", "yes"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
CONFIGURATION = {
    "task": "translation",
    "model": {"d_model": 512, "dropout": 0.1, "name": None},
    "rows": ["a", {"b": []}],
    "empty": {},
    "note": "a 'quoted' text: it has a colon, and is so long that it goes on " + "in the next line of the file " * 4,
    "seed": 1,
}


@pytest.mark.slow
@settings(max_examples=60)
@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), values, min_size=1, max_size=5))
def test_what_is_written_is_read_as_the_library_reads_it(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    write_yaml(path, value)
    assert read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        'a: "one\nb: two"\n',  # a string with an apparent key
        "a: [1,\nb]\n",
        "a: |\n text\nb: >\n  more\n  text\n",
        "- ab\n- cd\n",
        "a: 1\na: 2\nb: 3\n",  # the last value wins
        "a: 1\n---\nb: 2\n",
        "a: &x 1\nb: 2\n",
        "# a comment\na: 1 # another\n\nb:\n- 1\n- 2\n",
        "on: 1\n1: 2\n",
        "a:\n  b: 1\n c: 2\n",
        "a: 1",
        "a:1\n",
        "a: 'x\n",
        "",
    ],
)
def test_other_text_is_read_as_the_library_reads_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError as error:
        with pytest.raises(type(error)):
            read_yaml(path)
    else:
        assert read_yaml(path) == expected


def test_what_one_reader_changes_no_other_one_sees(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    write_yaml(path, CONFIGURATION)
    assert _AS_WRITTEN.fullmatch(path.read_text(encoding="utf-8"))  # so it is read block by block
    first = read_yaml(path)
    first["model"]["d_model"] = 1
    first["rows"].append("c")
    first["rows"][1]["b"].append(2)
    assert read_yaml(path) == CONFIGURATION
    write_yaml(path, CONFIGURATION | {"seed": 2})
    assert read_yaml(path) == CONFIGURATION | {"seed": 2}


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_has_not_are_refused(constant: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(f'{{"scores": {{"bleu": {constant}}}}}', encoding="utf-8")
    with pytest.raises(ValueError, match=f"it contains {constant}, which is not JSON"):
        read_json(path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"[1, 2]\n", "not a JSON object with a number as its step"),
        (b'{"step": "one"}\n', "not a JSON object with a number as its step"),
        (b'{"step": 1, "loss": ' + b"9" * 400 + b"}\n", "it contains the number 999"),
        (b'{"step": ' + b"9" * 5000 + b"}\n", "Exceeds the limit"),
        (b"[" * 100_000 + b"\n", "nested too deeply"),
        (b'{"step": 1, "loss": ' + b"[" * 60 + b"]" * 60 + b"}\n", "nested more than 60 levels deep"),
        (b'{"step": 1, "loss": NaN}\n', "it contains the number nan"),
        (b'{"step": 1, "loss": 1e400}\n', "it contains the number inf"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_line_of_measurements_is_named_with_its_file(
    content: bytes, fault: str, packed: bool, tmp_path: Path
) -> None:
    file = tmp_path / ("metrics.jsonl.gz" if packed else "metrics.jsonl")
    content = b'{"step": 1}\n' + content + b'{"step": 2}\n'
    file.write_bytes(gzip.compress(content) if packed else content)
    advice = "record the run again" if packed else "delete that line"
    with pytest.raises(UserError, match=rf"{file.name}, line 2: .*{fault}.*; {advice}\.$"):
        Measurements(tmp_path / "metrics.jsonl").read()


def test_many_lists_beside_each_other_are_not_nested(tmp_path: Path) -> None:
    lists = {f"branch/{number}.kappa": [0.5] for number in range(DEEPEST + 1)}
    (tmp_path / "metrics.jsonl").write_text(json_text({"step": 1, **lists}, indent=None) + "\n", encoding="utf-8")
    assert Measurements(tmp_path / "metrics.jsonl").read() == [{"step": 1, **lists}]


def test_a_small_file_with_huge_contents_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl.gz"
    file.write_bytes(gzip.compress(bytes(2 * LARGEST), 1))
    with pytest.raises(UserError, match=r"metrics\.jsonl\.gz holds more than 64 MiB"):
        Measurements(tmp_path / "metrics.jsonl").read()


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b'{"step": 1}\n' * 99)[:-9]], ids=["other", "cut off"])
def test_a_damaged_compressed_file_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl.gz"
    file.write_bytes(content)
    with pytest.raises(UserError) as told:
        Measurements(tmp_path / "metrics.jsonl").read()
    assert str(told.value).startswith(f"Cannot read {file}: ")
    assert str(told.value).endswith("; record the run again.")
    assert str(told.value).count(str(file)) == 1


@pytest.mark.parametrize("name", ["result.json", "config.yaml"])
def test_a_file_that_cannot_be_read_is_named_once(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UserError) as told:
        {"result.json": RunFolder(tmp_path).result, "config.yaml": RunFolder(tmp_path).config}[name]()
    assert str(told.value).count(str(tmp_path / name)) == 1


def test_damaged_counts_of_a_record_are_named_once(tmp_path: Path) -> None:
    file = tmp_path / "test.tokenised.counts.npy.gz"
    file.write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"restore it$") as told:
        read_counts(tmp_path / "test.tokenised.counts.npy", columns=10)
    assert str(told.value).count(str(file)) == 1


@pytest.mark.parametrize(
    ("largest", "dtype"), [(0, "<i2"), (32_767, "<i2"), (32_768, "<i4"), (-32_769, "<i4"), (1 << 40, "<i8")]
)
def test_counts_of_a_record_come_back_as_they_were_however_large(largest: int, dtype: str, tmp_path: Path) -> None:
    counts = np.array([[1, 2], [3, largest]])
    packed = packed_counts(counts)
    assert f"'descr': '{dtype}'".encode() in gzip.decompress(packed)
    (tmp_path / "test.counts.npy.gz").write_bytes(packed)
    assert np.array_equal(read_counts(tmp_path / "test.counts.npy", columns=2), counts)  # type: ignore[arg-type]


def test_a_set_without_sentences_has_counts_too() -> None:
    assert b"'descr': '<i2'" in gzip.decompress(packed_counts(np.zeros((0, 2), dtype=np.int64)))
