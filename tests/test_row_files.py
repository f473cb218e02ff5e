"""Names and base rows of the files of rows, checked before any work."""

from pathlib import Path

import pytest

from variations.commands.preflight import preflight
from variations.configuration.sweep_file import compose_sweep
from variations.store.rows import define
from variations.system.errors import UserError
from variations.tasks.translation.config import TranslationConfig

pytestmark = pytest.mark.usefixtures("config_dir")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ("row: own, base: bass", "variation.base=bass: there is no such row. Did you mean 'base'? Valid: base, own."),
        (
            "row: other, base: base",
            "its file {conf}/variation/mine/own.yaml says row: other. Write row: own, or rename the file.",
        ),
        ("base: base", "{conf}/variation/mine/own.yaml names no row: write `row: own` below `variation:`."),
    ],
)
def test_a_row_has_the_name_of_its_file_and_a_base_row_that_exists(names: str, fault: str, tmp_path: Path) -> None:
    files = {"base": "row: base", "own": names}
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_text("name: mine\ntable: mine\nseeds: [1]\n")
    (tmp_path / "variation" / "mine").mkdir(parents=True)
    for name, content in files.items():
        text = f"# @package _global_\nvariation: {{table: mine, {content}, label: {name}}}\n"
        (tmp_path / "variation" / "mine" / f"{name}.yaml").write_text(text)
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert found == [f"row own: {fault.format(conf=tmp_path)}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my row", "straße", "a,b"])
def test_a_rows_file_has_a_name_that_can_be_typed(name: str, tmp_path: Path) -> None:
    found = faults_of_a_row_called(name, tmp_path)
    assert found == [
        f"row '{name}': the name of a row's file has only the letters a to z and A to Z, digits, and _ . + -: "
        f"rename {tmp_path}/variation/mine/{name}.yaml."
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["007", "1e5", "null", "true", "off", "0x1F", "1_000"])
def test_a_rows_file_has_a_name_that_yaml_reads_as_text(name: str, tmp_path: Path) -> None:
    found = faults_of_a_row_called(name, tmp_path)
    file = f"{tmp_path}/variation/mine/{name}.yaml"
    assert found == [f"row '{name}': YAML does not read {name} as text: rename {file}."]


def faults_of_a_row_called(name: str, conf: Path) -> list[str]:
    for path, text in {
        "sweep/mine.yaml": "{name: mine, table: mine}",
        "variation/mine/own.yaml": "# @package _global_\nvariation: {table: mine, row: own, label: own}\n",
        f"variation/mine/{name}.yaml": f"# @package _global_\nvariation: {{table: mine, row: '{name}', label: x}}\n",
    }.items():
        (conf / path).parent.mkdir(parents=True, exist_ok=True)
        (conf / path).write_text(text)
    return preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("table: mine, rows: [nobody]", "there is no row 'nobody' in {conf}/variation/mine/. Its rows are own."),
        ("table: absent", "table=absent: there are no rows in {conf}/variation/absent/; set sweep.table."),
    ],
)
def test_missing_rows_are_looked_for_beside_their_sweep(rows: str, fault: str, tmp_path: Path) -> None:
    for path, text in {
        "sweep/mine.yaml": f"{{name: mine, {rows}}}",
        "variation/mine/own.yaml": "# @package _global_\nvariation: {table: mine, row: own, label: own}\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert any(fault.format(conf=tmp_path) in text for text in found), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bases", "fault"),
    [
        ({"one_head": "base", "base": None}, "the base row must come first: rows: [base, one_head]"),
        (
            {"one_head": "base", "base": "one_head"},
            "one_head and base are each other's base rows: remove `base` from the file of one of them.",
        ),
    ],
)
def test_rows_are_not_each_others_base_rows(bases: dict[str, str | None], fault: str, tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    path = tmp_path / "sweep" / "mine.yaml"
    path.write_text("name: mine\ntable: mine\nrows: [one_head, base]\nseeds: [1]\n")
    (tmp_path / "variation" / "mine").mkdir(parents=True)
    for name, base in bases.items():
        named = f", base: {base}" if base else ""
        text = f"# @package _global_\nvariation: {{table: mine, row: {name}, label: {name}{named}}}\n"
        (tmp_path / "variation" / "mine" / f"{name}.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("variations.configuration.doors._typed", [tmp_path])
        found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert found == [f"{path}: rows: {fault}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (
            "[attention_table3/base, one]",
            "mine/one has the base row mine/base, but the row base here is attention_table3/base",
        ),
        (
            "[attention_table3/A_h1, one]",
            "attention_table3/A_h1 has the base row attention_table3/base, but the row base here is mine/base",
        ),
        ("[base, one, quickstart/uniform]", None),
    ],
)
def test_a_base_row_is_the_one_of_the_rows_own_table(rows: str, fault: str | None, tmp_path: Path) -> None:
    """Two tables may have a row of one name, such as `base`; which one is meant is never guessed."""
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_text(f"name: mine\ntable: mine\nrows: {rows}\nseeds: [1]\n")
    (tmp_path / "variation" / "mine").mkdir(parents=True)
    for name, named in {"base": "", "one": ", base: base"}.items():
        text = f"# @package _global_\nvariation: {{table: mine, row: {name}, label: {name}{named}}}\n"
        (tmp_path / "variation" / "mine" / f"{name}.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("variations.configuration.doors._typed", [tmp_path])
        found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
        sweep = compose_sweep("mine")
        if fault:
            with pytest.raises(UserError, match=fault):
                define(sweep)
        else:
            assert {row.row for row in define(sweep).rows} >= {"one", "base"}
    assert [fault in text for text in found] == [True] if fault else found == []


@pytest.mark.slow
def test_a_row_whose_base_row_is_not_in_the_sweep_makes_no_circle(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    rows = "rows: [uniform, weighted]\nseeds: [1]\noverrides: [size=tiny, data=toy]\n"
    (tmp_path / "sweep" / "mine.yaml").write_text(f"name: mine\ntable: quickstart\n{rows}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("variations.configuration.doors._typed", [tmp_path])
        assert preflight(["sweep=mine"], TranslationConfig, "train", multirun=True) == []
        assert [row.row for row in define(compose_sweep("mine")).rows] == ["uniform", "weighted", "transformer"]
