"""What a file written as a whole may replace, and what killed writers leave."""

import errno
import os
import time
from pathlib import Path

import pytest

from variations.configuration.places import CONF, SWEEPS
from variations.store import atomic
from variations.store.atomic import destination, disk_refusals_told, refuse_unwritable, write_text
from variations.system.errors import RunFailedError, UserError


def test_the_file_that_a_link_names_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "kept" / "table.md", tmp_path / "latest.md"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    write_text(destination(link), "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["table.md"]


def test_a_pipe_or_device_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="a device or a pipe"):
        write_text(destination(pipe), "text")
    assert pipe.is_fifo() and len(list(tmp_path.iterdir())) == 1
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(UserError, match=f"Cannot write {path}: it is a device or a pipe, not a regular"):
            refuse_unwritable(out=str(path))


def test_no_file_of_a_run_or_of_the_configuration_is_an_output(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "table" / "row" / "seed1"
    (run / "hypotheses").mkdir(parents=True)
    (run / "figures").mkdir()
    theirs = [run / name for name in ("config.yaml", "status.json", "result.json", "hypotheses/test.hyp")]
    for path in theirs:
        path.write_text("kept")
    (tmp_path / "link.csv").symlink_to(run / "result.json")
    for path in (*theirs, tmp_path / "link.csv", SWEEPS / "quickstart.yaml", CONF / "train.yaml"):
        before = path.read_text(encoding="utf-8")
        with pytest.raises(OSError, match="which nothing may overwrite"):
            write_text(destination(path), "text")
        with pytest.raises(UserError, match=f"^Cannot write {path}: it is a file of the "):
            refuse_unwritable(out=str(path))
        assert path.read_text(encoding="utf-8") == before
    for path in (run / "figures" / "curve.svg", run.parent / "report.html"):
        for text in ("first", "second"):
            write_text(destination(path), text)
        assert path.read_text() == "second"


def test_what_a_killed_writer_left_is_removed_later_but_not_what_another_writes_now(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    old, fresh, other = (tmp_path / f".{name}.tmp" for name in ("table.md.7-aa", "table.md.8-bb", "other.md.7-aa"))
    for remnant in (old, fresh, other):
        remnant.write_text("half")
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    os.utime(other, (hour_ago, hour_ago))
    write_text(destination(path), "whole")
    assert {found.name for found in tmp_path.iterdir()} == {path.name, fresh.name, other.name}


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(OSError, match="symbolic links"):
        destination(tmp_path / "one")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (errno.EMFILE, "too many files are open"),
        (errno.ENOSPC, "the disk is full"),
        (errno.EIO, "cannot be written to"),
    ],
)
def test_what_the_system_refuses_a_run_is_told_with_a_remedy(code: int, told: str) -> None:
    with pytest.raises(RunFailedError, match=rf"{told}.*run the same command again to continue"), disk_refusals_told():
        raise OSError(code, os.strerror(code), "a file")


def test_a_folder_can_be_made_where_folders_may_be_made_but_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = atomic.flush

    def refused(path: Path) -> None:
        if path == tmp_path:  # as of a store with mode 1733
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        flush(path)

    monkeypatch.setattr(atomic, "flush", refused)
    atomic.make_folder(tmp_path / "single" / "a")
    assert (tmp_path / "single" / "a").is_dir()
