"""Finding sections by number."""

from pathlib import Path

import pytest

from variations.system.errors import DataError
from variations.tasks.parsing.treebank import extra_files, find

TREE = "(S (NN a))"


def write(folder: Path, numbers: list[str]) -> None:
    for number in numbers:
        path = folder / number[:2] / f"wsj_{number}.mrg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TREE, encoding="utf-8")


def test_the_standard_sections_are_found_in_any_folder_and_order(tmp_path: Path) -> None:
    write(tmp_path / "combined/wsj", [f"{section:02d}{number:02d}" for section in range(25) for number in (99, 0)])
    (tmp_path / "WSJ_2301.MRG").write_text(TREE, encoding="utf-8")
    (tmp_path / "wsj_2302.txt").write_text("no tree", encoding="utf-8")
    split = find(tmp_path)
    assert [path.name for path in split.train[:3]] == ["wsj_0200.mrg", "wsj_0299.mrg", "wsj_0300.mrg"]
    assert (len(split.train), split.train[-1].name) == (40, "wsj_2199.mrg")
    assert [path.name for path in split.dev] == ["wsj_2200.mrg", "wsj_2299.mrg"]
    assert [path.name for path in split.test] == ["wsj_2300.mrg", "WSJ_2301.MRG", "wsj_2399.mrg"]
    assert split.described.startswith("WSJ sections 02-21 (train), 22 (dev) and a part of 23 (test)")
    write(tmp_path / "rest", [f"23{number:02d}" for number in range(3, 99)])
    (tmp_path / "WSJ_2302.MRG").write_text(TREE, encoding="utf-8")
    assert find(tmp_path).described == "WSJ sections 02-21 (train), 22 (dev), 23 (test)"


def test_files_of_whole_sections_gzipped_files_and_linked_folders_are_found(tmp_path: Path) -> None:
    disk, root = tmp_path / "disk", tmp_path / "root"
    disk.mkdir()
    root.mkdir()
    for name in ("wsj_00.mrg", "wsj_02-21.mrg.gz", "wsj_22.mrg", "WSJ_23.MRG.GZ"):
        (disk / name).touch()
    (root / "wsj").symlink_to(disk, target_is_directory=True)
    (disk / "again").symlink_to(root, target_is_directory=True)  # a circular link
    split = find(root)
    assert [[path.name for path in part] for part in (split.train, split.dev, split.test)] == [
        ["wsj_02-21.mrg.gz"],
        ["wsj_22.mrg"],
        ["WSJ_23.MRG.GZ"],
    ]
    assert split.name == "wsj"
    (disk / "wsj_2301.mrg").touch()
    with pytest.raises(DataError, match=r"the same trees twice: .*WSJ_23.MRG.GZ and .*wsj_2301.mrg"):
        find(root)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["wsj_02-22.mrg", "wsj_23.mrg"], r"wsj_02-22.mrg mixes sections of training, development and test"),
        (["wsj_00-24.mrg"], r"wsj_00-24.mrg mixes"),
        (["wsj_21-02.mrg"], r"wsj_21-02.mrg: the sections in the name must ascend"),
    ],
)
def test_a_file_of_sections_belongs_to_one_set(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=message):
        find(tmp_path)


def test_the_free_sample_has_a_split_of_its_own_that_says_so(tmp_path: Path) -> None:
    write(tmp_path, [f"{number:04d}" for number in range(1, 200)])
    split = find(tmp_path)
    assert [len(files) for files in (split.train, split.dev, split.test)] == [159, 20, 20]
    assert (split.train[-1].name, split.dev[0].name, split.test[-1].name) == (
        "wsj_0159.mrg",
        "wsj_0160.mrg",
        "wsj_0199.mrg",
    )
    assert "not comparable with section 23" in split.described


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([], "contains no file wsj_"),
        (
            ["0001", "0199"],
            "197 of the 199 files of the free sample are missing: wsj_0002.mrg, wsj_0003.mrg, wsj_0004.mrg, …",
        ),
        ([f"{section:02d}00" for section in range(2, 22)], "lacks WSJ sections 22, 23: 02-21 are for training"),
    ],
)
def test_an_incomplete_folder_is_refused(tmp_path: Path, numbers: list[str], message: str) -> None:
    write(tmp_path, numbers)
    with pytest.raises(DataError, match=message):
        find(tmp_path)


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", ["0001"])
    write(tmp_path / "b", ["0001"])
    with pytest.raises(DataError, match=r"the same trees twice: .*a/00/wsj_0001.mrg and .*b/00/wsj_0001.mrg"):
        find(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere is not a folder"):
        find(tmp_path / "nowhere")


def test_extra_trees_come_from_files_and_folders(tmp_path: Path) -> None:
    write(tmp_path / "auto", ["0001", "0002"])
    (tmp_path / "more.txt").write_text(TREE * 3, encoding="utf-8")
    files = extra_files([str(tmp_path / "auto"), str(tmp_path / "more.txt")])
    assert [path.name for path in files] == ["wsj_0001.mrg", "wsj_0002.mrg", "more.txt"]
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent"):
        with pytest.raises(DataError, match=f"{name} contains no trees"):
            extra_files([str(tmp_path / name)])


def test_what_is_tested_cannot_be_extra_trees(tmp_path: Path) -> None:
    for name in ("wsj_02-21.mrg", "wsj_22.mrg", "wsj_23.mrg"):
        (tmp_path / name).write_text(TREE, encoding="utf-8")
    split = find(tmp_path)
    link = tmp_path.with_name(f"{tmp_path.name}-more.mrg")
    link.symlink_to(tmp_path / "wsj_23.mrg")
    assert extra_files([str(tmp_path / "wsj_02-21.mrg")], split) == [tmp_path / "wsj_02-21.mrg"]
    with pytest.raises(DataError, match=f"{link} is a file of the development or test set: nothing may be trained"):
        extra_files([str(link)], split)
    with pytest.raises(DataError, match=r"wsj_22\.mrg and 1 more are files of the development or test set"):
        extra_files([str(tmp_path)], split)
