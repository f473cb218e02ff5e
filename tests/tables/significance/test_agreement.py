"""Rank correlation of measured and published differences; costs by device."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoiled_text import cells

from variations.configuration.schema import SweepConfig
from variations.store.rows import define
from variations.tables.collect import SeedRun, device_hours
from variations.tables.correlation import ranks, spearman
from variations.tables.grid import lay_out
from variations.tables.line import Agreement
from variations.tables.table import Table, build
from variations.tables.text import select
from variations.tasks.translation.task import TASK


def test_ranks_share_the_mean_of_ties() -> None:
    assert ranks([10.0, 30.0, 20.0, 30.0]).tolist() == [1.0, 3.5, 2.0, 3.5]


def test_rank_correlation_equals_textbook_values() -> None:
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)  # 1 - 6·4 / (5·24)
    assert spearman([1, 2, 3], [9, 5, 1]) == pytest.approx(-1.0)
    # Ties: Pearson's correlation of (1, 2.5, 2.5, 4) and (1, 2, 3, 4).
    assert spearman([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(0.9486832980505138)
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([25.5 - 25.8, 24.7 - 25.0], [1, 2]) is None  # both −0.3, apart from the last bits
    assert spearman([1], [1]) is None
    with pytest.raises(ValueError, match="2 values cannot be correlated with 1"):
        spearman([1, 2], [1])


def test_published_and_measured_differences_are_ranked_even_on_other_data(
    conf: Path, make_run: Any, store: Path
) -> None:
    folder = conf / "variation" / "papers"
    figures = {"base": 25.8, "a": 25.0, "b": 26.0, "c": 24.0, "d": 23.0}
    for row, figure in figures.items():
        (folder / f"{row}.yaml").write_text(
            f"variation: {{label: {row}, base: base, published: {{dev_bleu: {figure}}}}}"
        )
    for row, measured in zip(figures, (30.0, 29.0, 31.0, 27.0, 28.0), strict=True):
        make_run("papers", row, 1, measured)
    table = build(define(SweepConfig(name="papers", rows=list(figures), seeds=[1]), conf=conf), store)
    (found,) = table.agreements
    assert (found.published, found.measure, found.rows) == ("dev_bleu", "dev.bleu", ("a", "b", "c", "d"))
    assert found.rho == pytest.approx(0.8)
    told = (
        "Published dev BLEU and measured dev BLEU: rank correlation of differences from the base row "
        "ρ = 0.80 (Spearman, n = 4 rows)."
    )
    assert told in table.remarks
    grid = lay_out(table)
    assert told in select(grid, ["published.dev_bleu"]).remarks
    assert not any("ublished" in text for text in select(grid, ["dev.bleu", "delta", "seeds"]).remarks)


def test_no_differences_of_published_costs_are_taken(conf: Path, store: Path) -> None:
    folder = conf / "variation" / "papers"
    for row, cost in (("base", "3.3e+18"), ("good", "2.3e+19")):
        (folder / f"{row}.yaml").write_text(
            f"variation: {{label: {row}, base: base, published: {{flops_ende: {cost}}}}}"
        )
    table = build(define(SweepConfig(name="papers", rows=["base", "good"]), conf=conf), store)
    assert table.lines[1].published_delta == {}
    grid = lay_out(table)
    assert [cell.text for cell in cells(grid, "training FLOPs, EN-DE, published")] == ["3.3e18", "2.3e19"]


def test_few_rows_are_said_to_be_few() -> None:
    assert "n = 3 rows, too few rows to tell" in Agreement("dev_bleu", "test.bleu", 1.0, ("a", "b", "c")).sentence(TASK)
    assert "no rank correlation" in Agreement("dev_bleu", "test.bleu", None, ("a",)).sentence(TASK)


@pytest.mark.parametrize(
    ("hardware", "title", "text"),
    [
        ({"accelerator": "gpu", "devices": 8}, "GPU-hours", "4"),
        ({"accelerator": "cpu", "devices": 1}, "process-hours", "0.5"),
        (None, "process-hours", "0.5"),  # from the configuration
    ],
)
def test_device_hours_name_the_device(
    make_run: Any, read: Callable[..., Table], hardware: Any, title: str, text: str
) -> None:
    make_run("papers", "base", 1, 30.0, seconds=1800.0, hardware=hardware)
    assert cells(lay_out(read(seeds=(1,))), title)[0].text == text


def test_devices_of_a_result_are_those_of_all_nodes() -> None:
    config = {"trainer": {"accelerator": "gpu", "devices": 4, "nodes": 2}}
    measured = {"seconds": 3600.0, "hardware": {"accelerator": "gpu", "devices": 8}}
    assert device_hours(SeedRun(1, "finished", config=config, result=measured)) == 8
    assert device_hours(SeedRun(1, "finished", config=config, result={"seconds": 3600.0})) == 8


def test_rows_on_different_devices_name_theirs(make_run: Any, read: Callable[..., Table]) -> None:
    make_run("papers", "base", 1, 30.0, seconds=1800.0, hardware={"accelerator": "gpu", "devices": 1})
    make_run("papers", "good", 1, 30.0, seconds=3600.0, hardware={"accelerator": "cpu", "devices": 1})
    assert [cell.text for cell in cells(lay_out(read(seeds=(1,))), "device-hours")] == ["0.5 GPU", "1 CPU", ""]


def test_times_that_do_not_follow_the_flops_are_told(make_run: Any, read: Callable[..., Table]) -> None:
    make_run("papers", "base", 1, 30.0, seconds=1000.0, flops=1e12)
    make_run("papers", "good", 1, 30.0, seconds=2000.0, flops=1e12)
    assert not any("A FLOP took" in text for text in read(seeds=(1,)).remarks)
    make_run("papers", "same", 1, 30.0, seconds=3000.0, flops=5e11)
    assert any(
        "A FLOP took up to 6 times as long in one row as in another" in text for text in read(seeds=(1,)).remarks
    )
