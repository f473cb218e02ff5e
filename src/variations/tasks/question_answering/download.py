"""The download of bAbI 1.2, with checks of its contents."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from variations.data.archives import extract
from variations.data.download import fetch
from variations.system.errors import DataError
from variations.tasks.question_answering.corpus import FOLDERS, TASKS, path_of
from variations.tasks.question_answering.reader import lines

URL = "https://s3.amazonaws.com/text-datasets/babi_tasks_1-20_v1-2.tar.gz"
"""A copy of the authors' archive that the examples of Keras use; the authors' own address
(http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz) is reported to be unavailable."""
TOP = "tasks_1-20_v1-2"
"""Folder in the archive that contains en and en-10k."""
PARTS = ("train", "test")
CHECKED = "checked"
"""Empty file beside the unpacked files, written once their contents have been verified."""
CONTENTS = {
    "en": (
        "a61c1c2aff10e63b", "3401632456ffbec0", "5cb87032c9d3f92f", "e54756d138a46279", "ee6b5ee7096552ca",
        "dced5f8b4c619d40", "2af87464f67566c6", "5337368f84dc1c50", "b7778ed7982386a0", "a6b374b58c543e11",
        "914cb16f5aaa07fe", "f4a088a1ffcfd621", "a8f7283f1284146a", "4ac284bc50cc4ebb", "8b6e72aa4e92bdf1",
        "56c432fabe90553d", "da7d850477eec284", "145f0e2983cc6f19", "aa2a90c8794fc88c", "753cad384ae21b80",
    ),
    "en-10k": (
        "f010667e5694cb12", "3600385e6a8b8c6e", "17795c977100baf8", "d2034bd17529ac6c", "41083758a9d07931",
        "6cbe76869e5d5077", "6c73241a1b2ec8c0", "594a1c35262af583", "2f07bf75cf2a50a7", "e8e2a400118f28b3",
        "0295f2e21cfe6e20", "a9dc911e674accdc", "a7e79ffd4f49b8e1", "775bc120a409ec43", "1674ea6ddd8a8c04",
        "3ff7faa53119ca2c", "427446c984592904", "2bacaa850756239b", "f1294b29eec66e85", "5be4838320bb2ebc",
    ),
}  # fmt: skip
"""For tasks 1 to 20, the first 16 hexadecimal digits of SHA-256 over the lines of the training and the test file of a
copy of the corpus. No checksum of the archive is published, and archives are repacked. Of task 3 of en-10k only the
test file was available."""
TEST_ALONE = ("en-10k", 3)
"""The folder and the task of which only the test file is checked."""


def download(cache: Path, size: str, *, url: str = URL, progress: bool = True) -> Path:
    """The folder that holds `en`, or for `size` 10k `en-10k`, downloaded, unpacked and verified unless it exists.

    Args:
        cache: `data.cache`; the archive stays in `downloads/babi` (it may be deleted), its files in `babi`.
        size: `1k` or `10k`.
        url: of the archive.
        progress: show a bar when stderr is a terminal.

    Raises:
        UserError: see `download.fetch` and `archives.extract`.
        DataError: files of the archive are not those of bAbI 1.2; all are named.
    """
    folder, name = cache / "babi" / size, FOLDERS[size]
    root = folder / TOP
    if is_downloaded(cache, size):
        return root
    manual = f"Without a network: download {url} elsewhere, unpack it, and set data.root to its folder {TOP}."
    archive = fetch(url, cache / "downloads" / "babi" / f"{TOP}.tar.gz", manual=manual, progress=progress)
    parts = [f"{TOP}/{name}/qa{task}_{title}_{part}.txt" for task, title in enumerate(TASKS, 1) for part in PARTS]
    extract(archive, folder, parts)
    if wrong := others(root, range(1, len(TASKS) + 1), size):
        raise DataError(
            f"{root / name} does not contain the files of bAbI 1.2: {'tasks' if len(wrong) > 1 else 'task'} "
            f"{', '.join(map(str, wrong))} differ{'' if len(wrong) > 1 else 's'}. Delete {folder} and {archive} to "
            "download them again, or name a copy with data.root=DIR."
        )
    (folder / CHECKED).touch()
    return root


def is_downloaded(cache: Path, size: str) -> bool:
    """Whether the files of a size are in the cache, complete."""
    return (cache / "babi" / size / CHECKED).is_file()


def others(root: Path, tasks: Iterable[int], size: str) -> list[int]:
    """The tasks of which a file is not that of bAbI 1.2. Raises DataError if one is missing."""
    return [task for task in tasks if digest(root, task, size) != CONTENTS[FOLDERS[size]][task - 1]]


def digest(root: Path, task: int, size: str) -> str:
    """The digest of a task as in `CONTENTS`, independent of line endings."""
    found = sha256()
    for part in PARTS:
        if part == "train" and (FOLDERS[size], task) == TEST_ALONE:
            continue
        for line in lines(path_of(root, task, size, part)):
            found.update(f"{line}\n".encode())
    return found.hexdigest()[:16]
