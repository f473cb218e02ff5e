"""bAbI's archive from a server on loopback: resumed, partly unpacked, checked by contents, requested once."""

import os
from pathlib import Path
from typing import Any

import pytest
from loopback import packed

from variations.commands.run import execute
from variations.configuration.compose import compose_run
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.question_answering import download as module
from variations.tasks.question_answering.config import DataConfig
from variations.tasks.question_answering.corpus import TASKS
from variations.tasks.question_answering.data import load
from variations.tasks.question_answering.download import CONTENTS, TEST_ALONE, TOP, digest, download
from variations.tasks.question_answering.task import TASK

DATA = Path(os.environ.get("VARIATIONS_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
STORY = "1 Mary went to the {place}.\n2 Where is Mary? \t{place}\t1\n"


def archive(folder: str, *, wrong: tuple[int, ...] = ()) -> bytes:
    """Pack a folder's forty files, each a story with Windows line endings, and one file that is not needed."""
    members = {f"{TOP}/LICENSE.txt": b"free"}
    for task, title in enumerate(TASKS, 1):
        text = STORY.format(place="attic" if task in wrong else "garden").replace("\n", "\r\n") * task
        members |= {f"{TOP}/{folder}/qa{task}_{title}_{part}.txt": text.encode() for part in ("train", "test")}
    return packed(members)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Accept the contents of the archive above, without carriage returns, as those of bAbI."""
    folder = tmp_path / "right" / "en"
    folder.mkdir(parents=True)
    for task, title in enumerate(TASKS, 1):
        for part in ("train", "test"):
            (folder / f"qa{task}_{title}_{part}.txt").write_text(STORY.format(place="garden") * task)
    found = tuple(digest(folder.parent, task, "1k") for task in range(1, 21))
    assert len(set(found)) == 20
    monkeypatch.setattr(module, "CONTENTS", {"en": found})


@pytest.mark.slow
def test_it_is_unpacked_checked_and_never_asked_for_again(
    site: Any, tmp_path: Path, known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["/babi.tar.gz"] = archive("en")
    site.break_at = [100]  # a second request fetches the remainder
    root = download(tmp_path / "cache", "1k", url=f"{site.url}/babi.tar.gz", progress=False)
    assert [asked for _, asked in site.log] == [None, "bytes=100-"]
    assert sorted(path.name for path in root.iterdir()) == ["en"]
    assert len(list((root / "en").iterdir())) == 40
    monkeypatch.setattr(module, "URL", "http://127.0.0.1:9/nowhere")
    (split,) = load(DataConfig(kind="babi", tasks=[3], cache=str(tmp_path / "cache"), valid=0))
    assert [question.answer for question in split.test] == ["garden"] * 3
    assert len(site.log) == 2


def test_other_files_are_refused_and_the_tasks_named(site: Any, tmp_path: Path, known: None) -> None:
    site.files["/babi.tar.gz"] = archive("en", wrong=(4, 17))
    for _ in range(2):  # a second attempt is also refused
        with pytest.raises(DataError, match=r"does not contain the files of bAbI 1.2: tasks 4, 17 differ\."):
            download(tmp_path / "cache", "1k", url=f"{site.url}/babi.tar.gz", progress=False)


@pytest.mark.parametrize(("size", "folder"), [("1k", "en"), ("10k", "en-10k")])
def test_the_known_contents_are_those_of_a_copy_of_the_corpus(size: str, folder: str) -> None:
    if not (DATA / "babi").is_dir():
        pytest.skip("needs bAbI below VARIATIONS_TEST_DATA")
    assert tuple(digest(DATA / "babi", task, size) for task in range(1, 21)) == CONTENTS[folder]


def test_every_task_is_known_by_contents_of_its_own() -> None:
    assert TEST_ALONE == ("en-10k", 3)
    assert all(len(set(known)) == 20 for known in CONTENTS.values())


@pytest.mark.slow
def test_other_stories_under_the_names_of_babis_files_are_told_of_in_the_result(tmp_path: Path, known: None) -> None:
    """As with another version of bAbI: the run goes on, but its figures are not compared with published ones."""
    folder = tmp_path / "en"
    folder.mkdir()
    for task in (1, 2):
        for part in ("train", "test"):
            text = STORY.format(place="attic" if task == 2 else "garden") * task
            (folder / f"qa{task}_{TASKS[task - 1]}_{part}.txt").write_text(text)
    words = ["task=question_answering", "data=babi", f"data.root={tmp_path}", "data.tasks=[1,2]", "data.valid=0.5"]
    short = ["trainer.max_steps=1", "trainer.val_every=1", "model.restarts=1", "logger=none", "trainer.progress=false"]
    result = RunFolder(execute(compose_run([*words, *short, f"runs={tmp_path / 'runs'}"]))).result()
    assert result is not None and result["not_of_babi"] == [2]
    assert TASK.misnamed(result) == "the stories of task 2 in data.root were not those of bAbI 1.2"
