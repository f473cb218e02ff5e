"""Faults of sweep files, told before any work; those of rows are in test_row_files.py."""

from pathlib import Path
from typing import Any

import pytest
from command_lines import faults_of
from suite import sampled

from variations.commands.figures import FiguresConfig
from variations.commands.plan import PlanConfig
from variations.commands.preflight import preflight, with_task
from variations.commands.record import RecordConfig
from variations.commands.table import TableConfig
from variations.configuration.compose import register_schema
from variations.configuration.sweep_file import compose_sweep
from variations.planning.rows import plan_rows
from variations.sweeping.jobs import composed_jobs
from variations.system.errors import ConfigError
from variations.tasks.translation.config import TranslationConfig

pytestmark = pytest.mark.usefixtures("config_dir")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (
            "rows: [transformer, nobody]",
            "rows: there is no row 'nobody' in conf/variation/quickstart/. "
            "Its rows are learned_positions, transformer, uniform, weighted.",
        ),
        ("row: [transformer]", "unknown key 'row'. Did you mean 'rows'?"),
        ("at_once: 0", "at_once=0: must be a whole number, at least 1, or auto."),
        ("rows: [uniform, uniform]", "rows: uniform is listed twice: leave one out."),
        (
            "overrides: [sweep.name=other]",
            "overrides: sweep.name=other is not for single rows: set name, rows and the like as keys of this file.",
        ),
        (
            "overrides: [variation=quickstart/uniform]",
            "overrides: variation=quickstart/uniform is not for single rows: set name, rows and the like as keys of "
            "this file.",
        ),
        (
            "overrides: [runs=/big]",
            "overrides: type runs=/big after each command instead: tables and figures do not read it here.",
        ),
    ],
)
def test_faults_of_a_sweep_file_name_its_keys_as_they_are_written(written: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(f"name: mine\ntable: quickstart\nseeds: [1]\n{written}\n")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert found == [f"{path}: {fault}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("model.hh=2", "model.hh=2: there is no key or group 'model.hh'. Did you mean model.h=2?"),
        ("name=foo", "`name` belongs to a command, not to a row: leave it out of the sweep's overrides."),
    ],
)
def test_faulty_overrides_of_a_sweep_file_are_told_for_a_single_run(override: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(f"name: mine\ntable: quickstart\noverrides: [size=tiny, {override}]\n")
    (found,) = faults_of("sweep=mine", "variation=quickstart/uniform")
    assert found.endswith(fault)


@pytest.mark.slow
def test_faults_of_a_search_are_told_as_they_are_written_or_typed(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "sought.yaml"
    path.parent.mkdir()
    search = "search: {baseline: a/b, trials: 4, space: {model.dropout: 3}}"
    path.write_text(f"name: sought\noverrides: ['decode.sets=[dev]']\n{search}\n")
    for typed, place in (([], f"{path}: "), (["sweep.search.baseline=a/b"], "sweep.")):
        found = preflight(["sweep=sought", *typed], TranslationConfig, "train", multirun=True)
        assert found[0].startswith(f"{path}: search.space: model.dropout: 3 is not a space: write interval(0,0.3)")
        assert found[1].startswith(f"{place}search.baseline=a/b: there is no such row.")


@pytest.mark.slow
def test_the_rows_of_a_sweep_tell_their_task() -> None:
    lines = ["sweep=babi_ours", "model.restarts=1"]
    assert faults_of(*with_task(lines), multirun=True) == []
    assert with_task(lines) == [*lines, "task=question_answering"]
    (job, *_) = composed_jobs((*with_task(lines), "seeds=[1]"))
    assert job.config.sweep.typed == ["model.restarts=1"]  # the task was not
    for known in (["sweep=quickstart"], ["sweep=nothing"], [*lines, "task=parsing"], ["model.h=2"]):
        assert with_task(known) == known


@pytest.mark.slow
def test_files_that_a_folder_lacks_are_told_before_any_row_starts(tmp_path: Path) -> None:
    for name in ("train.en", "train.de", "valid.en", "valid.de.gz", "test.en"):
        (tmp_path / name).write_text("")
    lines = ["sweep=quickstart", "data=files", f"data.root={tmp_path}"]
    (fault,) = faults_of(*lines, multirun=True)
    assert fault.startswith(f"{tmp_path} lacks test.de (data.test=test, data.target=de), plain or with .gz.")
    assert faults_of(*lines, "data.test=valid", multirun=True) == []


@pytest.mark.slow
def test_a_single_run_has_a_measure_of_its_task() -> None:
    (fault,) = faults_of("sweep.metric=nonsense")
    assert fault.startswith("sweep.metric: there is no 'nonsense'. Valid: ")
    assert faults_of("sweep.metric=chrf") == faults_of() == []
    assert faults_of("task=question_answering", "model=memn2n", "data=babi_toy") == []
    with pytest.raises(ConfigError, match=r"sweep\.name=x names several runs: add sweep=NAME"):
        plan_rows(["sweep.name=x"])


@pytest.mark.slow
def test_a_sweep_file_with_a_list_says_what_it_must_contain(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_text("- rows\n- seeds\n")
    (fault,) = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    told = "the file contains a list, but must contain keys and values: remove the dash before each key"
    assert fault == f"In 'sweep/mine': {told}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (
            "# @package _global_\nmodel: {h: one}",
            "{folder}/variation/mine/row.yaml: model.h: must be a whole number, not 'one'",
        ),
        (
            "model: {h: 1}",
            "{folder}/variation/mine/row.yaml: unknown key 'variation.model'. "
            "The first line of a row's file must be `# @package _global_`.",
        ),
        (
            "# @package _global_\ndefaults: [{override /positions: lerned}]",
            "{folder}/variation/mine/row.yaml: positions=lerned: there is no such option. Did you mean 'learned'? "
            "Valid choices for positions: learned, sinusoidal, sinusoidal_t2t.",
        ),
        (
            "# @package _global_\nmodel.h: 1\ndecode: {}",
            "{folder}/variation/mine/row.yaml: 'model.h' is written with a dot; in a file write `model: {h: 1}`.",
        ),
        (
            "# @package _global_\npositions: learned",
            "{folder}/variation/mine/row.yaml: `positions` is a group: "
            "write `defaults: [{override /positions: learned}]`.",
        ),
        (
            "# @package _global_\nsize: huge",
            "{folder}/variation/mine/row.yaml: `size` is a group: write `defaults: [{override /size: OPTION}]`. "
            "'huge' is no option of it. Valid choices for size: base, base_scaled, big, multi30k, small, tiny. "
            "One of your own: write conf/size/huge.yaml, install its package, or name its folder with "
            "--config-dir=FOLDER.",
        ),
        (
            "# @package _global_\ndefaults: [{/model: weighted}]",
            "{folder}/variation/mine/row.yaml: `/model: weighted` in its defaults: "
            "write `defaults: [{override /model: weighted}]`.",
        ),
        (
            "# @package _global_\ndefaults: [{override positions: learned}]",
            "{folder}/variation/mine/row.yaml: `override positions: learned` in its defaults: "
            "write `defaults: [{override /positions: learned}]`.",
        ),
        (
            "# @package _global_\nmodel:\n\th: 1",
            "{folder}/variation/mine/row.yaml is not valid YAML: line 3, column 1: a tab or another character "
            "with which no text may start: indent with spaces, and quote such text",
        ),
        (
            "# @package _global_\nmodel:\n  h: 1\n   N: 2",
            "{folder}/variation/mine/row.yaml is not valid YAML: line 4, column 5: mapping values are not allowed "
            "in this context: check the indentation of this line, and quote text that contains a colon and a space",
        ),
        (
            "# @package _global_\nmodel:\ndecode: {}",
            "{folder}/variation/mine/row.yaml: `model:` has nothing below it: indent its keys by two spaces more than "
            "`model:`, or leave it out.",
        ),
        (
            "# @package _global_\nmodel:\n  h:1",
            "{folder}/variation/mine/row.yaml: below `model:` is the text 'h:1': write `h: 1`, with a space after the "
            "colon.",
        ),
        (
            "# @package _global_\nmodel: {kind: 'mine:Model', width: 1, h: 2}",
            "{folder}/variation/mine/row.yaml: `model` has no key width: keys of a class of your own belong below "
            "`options:`.",
        ),
        (
            "# @package _global_\nd_ff: 1",
            "{folder}/variation/mine/row.yaml: unknown key 'd_ff'. Did you mean `model: {d_ff: …}`?",
        ),
    ],
)
def test_faults_of_a_row_file_are_said_in_the_words_of_the_command_line(
    written: str, fault: str, tmp_path: Path
) -> None:
    files = {
        "sweep/mine.yaml": "name: mine\ntable: mine\nrows: [row]\nseeds: [1]\n",
        "variation/mine/row.yaml": f"{written}\nvariation: {{table: mine, row: row, label: row}}\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    where = "" if "is not valid YAML" in fault else "row row: "  # such a file is found before rows are composed
    assert found == [f"{where}{fault.replace('{folder}', str(tmp_path))}"]


@pytest.mark.slow
def test_all_faults_of_a_sweeps_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("name: mine\nrows: [quickstart/transformer]\nseeds: [1, x]\nmetrik: bleu\nat_once: [2]\n")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert sorted(found) == [
        f"{path}: at_once: must be a single value, not [2]",
        f"{path}: seeds[1]: must be a whole number, not 'x'",
        f"{path}: unknown key 'metrik'. Did you mean 'metric'?",
    ]

    rows = "[quickstart/transformer, quickstart/nobody, quickstart/uniform]"
    path.write_text(f"name: other\nrows: {rows}\noverrides: [size=tinny, model.hh=2]\nmetric: blue\n")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    starts = (
        "name: other is not the name of the file: write name: mine",
        "rows: there is no row 'nobody'",
        "overrides: size=tinny: there is no such",
        "overrides: model.hh=2: there",
        "metric: there is no 'blue'",
    )
    assert len(found) == len(starts)
    assert all(text.startswith(f"{path}: {start}") for text, start in zip(found, starts, strict=True)), found

    path.write_text(path.read_text() + 'metrik: bleu\nseeds: x\nnote: "it\'s, \\\\ here"\n')
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    all_starts = ["unknown key 'metrik'. Did you mean 'metric'?", "seeds: must be a list such as [1,2]", *starts]
    assert len(found) == len(all_starts)
    assert all(text.startswith(f"{path}: {start}") for text, start in zip(found, all_starts, strict=True)), found


UNUSABLE = [
    ("", " is empty: write `name: mine` and the rows to train, such as `rows: [quickstart/transformer]`."),
    ("# later\n", " is empty: write `name: mine` and the rows to train, such as `rows: [quickstart/transformer]`."),
    ("name: [a]\n", ": name: must be text, not ['a']"),
    ("name: mine\nrows: {a: b}\n", ": rows: must be a list such as [a,b]"),
    ("name: on\n", ": name: YAML reads this word as true: write it in quotes, or choose another name."),
    (
        "table: quickstart\n",
        ": name is not set: the sweep's file must set it, because it names the folder of the runs.",
    ),
    (
        "name: other\ntable: quickstart\n",
        ": name: other is not the name of the file: write name: mine, because sweeps of the same name share the "
        "folders of their runs. To keep other runs under another name, copy the file to other.yaml, or type "
        "sweep.name=other.",
    ),
]
VERBS = [
    ("train", TranslationConfig, True),
    ("plan", PlanConfig, False),
    ("table", TableConfig, False),
    ("record", RecordConfig, False),
    ("figures", FiguresConfig, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "fault", "verb", "schema", "several"), sampled([(*a, *b) for a in UNUSABLE for b in VERBS], 4)
)
def test_a_sweep_file_that_cannot_be_used_is_told_by_every_verb(
    written: str, fault: str, verb: str, schema: type[Any], several: bool, tmp_path: Path
) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(written)
    register_schema(schema, verb)
    found = preflight(["sweep=mine"], schema, verb, multirun=several, axes=not several)
    assert found == [f"{path}{fault}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (
            "name: mine\ndefaults: [mine]\n",
            "files of the configuration include each other in a circle: check `defaults`.",
        ),
        ("name: mine\ndefaults: 5\nrowz: [x]\n", "unknown key 'rowz'. Did you mean 'rows'?"),
        (
            "name: mine\nrows: [uniform]\ndefaults: [_self_, quickstart]\n",
            "defaults: write _self_ last: what the files after it say would replace what this file says.",
        ),
    ],
)
def test_a_sweep_file_whose_defaults_cannot_be_used_is_told(written: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(written)
    register_schema(TranslationConfig, "train")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert any(fault in text for text in found), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("included", "own", "place", "fault"),
    [
        ("rows: [nobody]", "", "theirs", "rows: there is no row 'nobody' in conf/variation/quickstart/."),
        ("rowz: [uniform]", "seeds: [1]", "theirs", "unknown key 'rowz'. Did you mean 'rows'?"),
        ("rowz: [uniform]", "rows: [nobody]", "mine", "rows: there is no row 'nobody' in conf/variation/quickstart/."),
        ("overrides: [model.hh=3]", "", "theirs", "overrides: model.hh=3: there is no key or group 'model.hh'."),
    ],
)
def test_a_fault_of_an_included_sweep_file_names_that_file(
    included: str, own: str, place: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "theirs.yaml").write_text(f"name: theirs\ntable: quickstart\n{included}\n")
    (tmp_path / "sweep" / "mine.yaml").write_text(f"defaults: [theirs, _self_]\nname: mine\n{own}\n")
    register_schema(TranslationConfig, "train")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True)
    assert any(text.startswith(f"{tmp_path}/sweep/{place}.yaml: {fault}") for text in found), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        (
            "mine",
            "# @package _global_\ndefaults: [{override /data: toy}, {override /recipe: quick}]\nsweep: {name: mine}\n",
            "{path}: defaults: only names of other sweeps can stand here: write overrides: [data=toy, recipe=quick] "
            "instead.",
        ),
        ("2024", "name: 2024", "sweep=2024: YAML does not read 2024 as a name: rename its file to a word."),
    ],
)
@pytest.mark.parametrize(("verb", "schema"), [("train", TranslationConfig), ("table", TableConfig)])
def test_a_sweep_file_that_hydra_cannot_use_is_refused_by_every_verb(
    name: str, text: str, fault: str, verb: str, schema: type[Any], tmp_path: Path
) -> None:
    path = tmp_path / "sweep" / f"{name}.yaml"
    path.parent.mkdir()
    path.write_text(text)
    register_schema(schema, verb)
    found = preflight([f"sweep={name}"], schema, verb, multirun=verb == "train")
    assert found[0] == fault.format(path=path)


def test_claims_and_python_refuse_a_sweep_file_of_another_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("variations.configuration.doors._typed", [tmp_path])
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("name: other\ntable: quickstart\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: name: other is not the name of the file: write name: mine"):
        compose_sweep("mine")
    path.write_text("name: quickstart\ntable: quickstart\n")  # a copy of a sweep, which no advice may overwrite
    with pytest.raises(ConfigError, match=r"write name: mine, because sweeps of .* share the folders of their runs\.$"):
        compose_sweep("mine")


@pytest.mark.slow
def test_a_name_on_the_command_line_replaces_that_of_a_sweep_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("name: other\ntable: quickstart\n")
    lines = ["sweep=mine", "sweep.name=third"]
    assert preflight(lines, TranslationConfig, "train", multirun=True) == []
