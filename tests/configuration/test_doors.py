"""Folders of configuration files in addition to ours."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from variations.commands.table import main
from variations.configuration import doors
from variations.system.errors import ConfigError


def given(folder: Path) -> None:
    doors.open_given(folder)


def typed(folder: Path) -> None:
    doors.open_typed([f"hydra.searchpath=[file://{folder}]"])


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "_given", [])
    monkeypatch.setattr(doors, "_typed", [])


@pytest.mark.parametrize(("named", "opened"), [("--config-dir", given), ("hydra.searchpath", typed)])
def test_a_file_that_one_of_ours_would_hide_is_told(named: str, opened: Callable[[Path], None], tmp_path: Path) -> None:
    copy, file = (tmp_path / place / "size/big.yaml" for place in ("copied", "changed"))
    for made in (copy, file):
        made.parent.mkdir(parents=True)
    copy.write_bytes((doors.CONF / "size/big.yaml").read_bytes())
    file.write_text("model:\n  h: 2\n")
    opened(tmp_path / "copied")
    with pytest.raises(ConfigError) as told:
        opened(tmp_path / "changed")
    told_of = "would not be used, because conf/size/big.yaml has the same name: rename it."
    assert told.value.faults == [f"{named}: {file} {told_of}"]


def test_a_file_that_the_given_folder_would_hide_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, heads in (("given", 2), ("typed", 4)):
        (tmp_path / place / "size").mkdir(parents=True)
        (tmp_path / place / "size/mine.yaml").write_text(f"model:\n  h: {heads}\n")
    words = [f"--config-dir={tmp_path / 'given'}", f"hydra.searchpath=[file://{tmp_path / 'typed'}]"]
    monkeypatch.setattr(sys, "argv", ["table.py", *words])
    with pytest.raises(SystemExit):
        main()
    assert f"{tmp_path / 'typed/size/mine.yaml'} would not be used" in capsys.readouterr().err


def test_a_file_that_an_earlier_folder_would_hide_is_told(tmp_path: Path) -> None:
    for place, heads in (("first", 2), ("second", 4)):
        (tmp_path / place / "size").mkdir(parents=True)
        (tmp_path / place / "size/mine.yaml").write_text(f"model:\n  h: {heads}\n")
    places = ",".join(f"file://{tmp_path / place}" for place in ("first", "second", "first"))
    with pytest.raises(ConfigError) as told:
        doors.open_typed([f"hydra.searchpath=[{places}]"])
    hidden, used = (tmp_path / place / "size/mine.yaml" for place in ("second", "first"))
    assert told.value.faults == [
        f"hydra.searchpath: {hidden} would not be used, because {used} has the same name: rename it."
    ]


def test_a_file_of_an_installed_package_that_is_hidden_is_refused_where_its_name_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ours, by a named folder and by another package; equal files, and names that are not read, are no fault."""
    for place, size in (("named", "mine"), ("first", "mine"), ("first", "big"), ("second", "mine"), ("second", "own")):
        file = tmp_path / place / "conf/size" / f"{size}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"model:\n  h: {2 if place == 'second' else 4}\n")
    (tmp_path / "first/conf/train.yaml").write_text("theirs: 1\n")  # of another program
    first, second = (tmp_path / place / "conf" for place in ("first", "second"))
    monkeypatch.setattr(doors, "installed", lambda: (first, second))
    end = "has the same name: rename one of them, or uninstall the package."
    of_second = f"installed package second: {second / 'size/mine.yaml'} would not be used, because"
    with pytest.raises(ConfigError) as told:
        doors.refuse_hidden("size/tiny", "size/mine", "size/big")
    assert told.value.faults == [
        f"{of_second} {first / 'size/mine.yaml'} {end}",
        f"installed package first: {first / 'size/big.yaml'} would not be used, because conf/size/big.yaml {end}",
    ]
    doors.open_given(tmp_path / "named/conf")
    with pytest.raises(ConfigError) as told:
        doors.refuse_hidden("size/mine")
    assert told.value.faults == [f"{of_second} {tmp_path / 'named/conf/size/mine.yaml'} {end}"]
    doors.refuse_hidden("size/own", "size/tiny", "train")
