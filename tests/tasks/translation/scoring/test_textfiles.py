import gzip

import pytest

from variations.system.errors import DataError
from variations.tasks.translation.scoring.textfiles import read_lines


def test_reads_plain_and_gzip(tmp_path):
    (tmp_path / "a.de").write_bytes("Größe\r\n\nzwei\u2028Teile".encode())
    (tmp_path / "a.de.gz").write_bytes(gzip.compress("\ufeffGröße\n\nzwei\u2028Teile\n".encode()))
    expected = ["Größe", "", "zwei\u2028Teile"]
    assert read_lines(tmp_path / "a.de", "reference file") == expected
    assert read_lines(tmp_path / "a.de.gz", "reference file") == expected


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(DataError, match=r"reference file .*none\.de does not exist"):
        read_lines(tmp_path / "none.de", "reference file")
    with pytest.raises(DataError, match="is a folder"):
        read_lines(tmp_path, "hypothesis file")


@pytest.mark.parametrize("name", ["empty.de", "empty.de.gz"])
def test_empty_file_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    with pytest.raises(DataError, match=r"hypothesis file .* is empty"):
        read_lines(tmp_path / name, "hypothesis file")


def test_invalid_utf8_is_named_with_its_line(tmp_path):
    (tmp_path / "latin.de").write_bytes(b"eins\nzwei\ndr\xfcben\n")
    with pytest.raises(
        DataError, match=r"Line 3 of the hypothesis file .*latin\.de is not valid UTF-8 .*byte 3 .*0xfc"
    ):
        read_lines(tmp_path / "latin.de", "hypothesis file")


def test_broken_gzip_is_refused(tmp_path):
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a line\n" * 1000)[:-20])
    (tmp_path / "plain.gz").write_bytes(b"not gzip at all\n")
    for name in ("cut.gz", "plain.gz"):
        with pytest.raises(DataError, match=f"{name} is not a complete gzip file"):
            read_lines(tmp_path / name, "source file")
