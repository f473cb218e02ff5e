"""metrics.jsonl is read as it grows, and at a glance from its ends."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from variations.dashboard.metrics import Glance, Metrics, glance, thinned
from variations.store import atomic
from variations.system.errors import UserError

Maker = Callable[..., Path]


def test_measurements_are_read_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.update()
    assert metrics.lines == 0
    path.write_text('{"step": 1, "lr": 1.0}\n{"step": 2, "l', encoding="utf-8")
    metrics.update()
    assert metrics.costs["step"] == [1.0]
    with path.open("a", encoding="utf-8") as file:
        file.write('r": 2.0}\nnonsense\n{"step": 3, "lr": NaN, "dev/bleu": null}\n')
    metrics.update()
    assert metrics.costs["step"] == [1.0, 2.0, 3.0]
    assert metrics.scalars == {"lr": ([0, 1], [1.0, 2.0])}
    assert metrics.damaged == [3]


def test_a_file_that_was_cut_back_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {n}, "lr": 1.0}}\n' for n in range(1, 6)), encoding="utf-8")
    metrics = Metrics(path)
    metrics.update()
    other = tmp_path / "new"
    other.write_text("".join(f'{{"step": {n}, "lr": 2.0}}\n' for n in range(1, 9)), encoding="utf-8")
    other.replace(path)  # longer than before, so only the file's identity reveals the change
    metrics.update()
    assert metrics.costs["step"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert set(metrics.scalars["lr"][1]) == {2.0}


@pytest.mark.parametrize("length", [5, 8])
def test_a_file_that_has_its_former_inode_again_is_read_anew(length: int, tmp_path: Path) -> None:
    """After several resumes between two reads, the number of the inode may come back, and the file may be longer."""
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {n}, "lr": 1.0}}\n' for n in range(1, 6)), encoding="utf-8")
    metrics = Metrics(path)
    metrics.update()
    before = path.stat().st_ino
    path.write_text("".join(f'{{"step": {n}, "lr": 2.0}}\n' for n in range(1, length + 1)), encoding="utf-8")
    assert path.stat().st_ino == before
    metrics.update()
    assert metrics.costs["step"] == [*range(1, length + 1)]
    assert set(metrics.scalars["lr"][1]) == {2.0}
    metrics.update()
    assert metrics.lines == length


def test_a_glance_at_a_long_file_reads_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": n, "lr": 0.5, "filler": "x" * 90} for n in range(2000)]
    lines[0]["first/only"] = 1.0
    lines[-1]["dev/bleu"] = 7.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = glance(path)
    assert found.values == {"first/only": 1.0, "dev/bleu": 7.0, "lr": 0.5}
    assert found.costs == {"step": 1999.0}
    assert glance(tmp_path / "none") == Glance()


def test_a_glance_sees_a_line_that_is_longer_than_the_ends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": n, "dev/bleu": float(n), "x.kappa": [0.01] * 20_000} for n in range(4)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert path.stat().st_size > 4 * 100_000
    assert glance(path) == Glance({"dev/bleu": 3.0}, {"step": 3.0}, branched=True)


def test_a_glance_at_all_measurements_has_the_last_value_of_each(tmp_path: Path) -> None:
    """Between two validations, a running run writes more lines than the ends of its file hold."""
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": n, "seconds": n / 2, "lr": 0.5, "filler": "x" * 90} for n in range(2000)]
    lines[1000] |= {"dev/bleu": 7.0, "branch/encoder0.kappa": [0.5, 0.5]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    metrics = Metrics(path)
    metrics.update()
    assert Glance.of(metrics) == Glance({"dev/bleu": 7.0, "lr": 0.5}, {"step": 1999.0, "seconds": 999.5}, branched=True)
    assert "dev/bleu" not in glance(path).values


@pytest.mark.parametrize("limit", [2, 10, 200])
def test_thinned_runs_of_unequal_length_keep_common_places(limit: int) -> None:
    for length in (1, 2, 3, 199, 200, 201, 5000):
        kept = thinned(range(length), limit)
        assert len(kept) <= limit and (kept[0], kept[-1]) == (0, length - 1)
        assert kept == sorted(set(kept))
    short, long = (thinned(range(length), limit)[:-1] for length in (1500, 2500))
    assert {place for place in long if place < 1499} <= {*short}


def test_a_small_archive_of_endless_measurements_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    with gzip.open(tmp_path / "metrics.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(f'{{"step": {step}, "lr": 1.0}}\n' for step in range(1000))
    assert glance(path).values == {"lr": 1.0}
    monkeypatch.setattr(atomic, "LARGEST", 10_000)
    with pytest.raises(UserError, match=r"metrics\.jsonl\.gz cannot be read \(.*holds more than"):
        Metrics(path).update()
    assert glance(path) == Glance()
