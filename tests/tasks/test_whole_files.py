"""Files that tasks keep in a run's folder are replaced atomically: a failing disk leaves the previous file."""

import errno
from pathlib import Path
from typing import Any

import faulty_disk
import numpy as np
import pytest

from variations.store.ledger import RunFolder
from variations.tasks.parsing.words import Vocabulary
from variations.tasks.question_answering import measures


def words(folder: Path, name: str) -> Path:
    Vocabulary([name]).write(folder / "words.json")
    return folder / "words.json"


def answers(folder: Path, name: str) -> Path:
    measures.keep(RunFolder(folder), {f"wrong_{name}": np.zeros((2, 3))}, {1: 0})
    return folder / "hypotheses" / measures.ANSWERS


@pytest.mark.parametrize("keep", [words, answers])
def test_a_refusal_leaves_the_former_file_and_no_other(keep: Any, tmp_path: Path) -> None:
    path = keep(tmp_path, "former")
    before = path.read_bytes()
    for at in (1, 2):
        with faulty_disk.failing(tmp_path, at=at, error=errno.EIO), pytest.raises(OSError, match="Input/output"):
            keep(tmp_path, "later")
        assert path.read_bytes() == before
        assert list(path.parent.glob("*.tmp")) + list(path.parent.glob(".*")) == []
