"""The command line: all faults in one message, exit code 2, nothing created on disk, torch not imported."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf.errors import OmegaConfBaseException

from variations.commands.cli import command
from variations.commands.console import main, start
from variations.commands.figures import FiguresConfig
from variations.commands.plan import PlanConfig
from variations.commands.preflight import preflight, with_task
from variations.commands.record import RecordConfig
from variations.commands.table import TableConfig
from variations.configuration.compose import compose_node, compose_run, register_schema
from variations.configuration.places import CONF
from variations.configuration.sweep_file import compose_sweep
from variations.system.errors import ConfigError
from variations.tasks.translation.config import TranslationConfig

ROOT = Path(__file__).resolve().parents[1]

FAKE_VERB = """
import sys
from dataclasses import dataclass
from variations.commands.cli import command
from variations.system.errors import DataError

@dataclass
class VerbConfig:
    what: str = "fine"
    count: int = 1
    \"\"\"How often.\"\"\"

def act(config: VerbConfig) -> None:
    \"\"\"Does something.

    Raises:
        DataError: Now and then.
    \"\"\"
    if config.what == "data":
        raise DataError("train.de, line 3 is not UTF-8.")
    if config.what == "bug":
        raise ZeroDivisionError("a fault of ours")
    if config.what == "stop":
        raise KeyboardInterrupt
    print("torch" in sys.modules, type(config).__name__, config.count)

main = command(act, schema=VerbConfig, config_name="verb", examples={"what=fine": "the usual"})
if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a verb that is started in this process sets for its end."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    yield
    signal.signal(signal.SIGINT, before)


def run(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    line = [sys.executable, str(script), *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, env=environment, timeout=60, check=False)


def train(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(ROOT / "src" / "train.py", *arguments, cwd=cwd)


def faults_of(*lines: str, multirun: bool = False) -> list[str]:
    return preflight(lines, TranslationConfig, "train", multirun=multirun, runs_models=True)


@pytest.mark.slow
def test_all_faults_come_in_one_message_with_exit_code_2_and_no_folder(tmp_path: Path) -> None:
    done = train(
        "modle=weighted",
        "model.heads=4",
        "size=tinyy",
        "recipe.lr=abc",
        "decode.beam=0",
        "data.target=en",
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for part in (
        "6 faults in the configuration:",
        "modle=weighted: there is no key or group 'modle'. Did you mean model=weighted?",
        "model.heads=4: there is no key or group 'model.heads'. Did you mean model.h=4?",
        "size=tinyy: there is no such option. Did you mean 'tiny'?",
        "recipe.lr=abc: must be a number, greater than 0.",
        "decode.beam=0: must be at least 1.",
        "data.source and data.target are both 'en'",
    ):
        assert part in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("size=huge", "size=huge: there is no such option. Valid choices for size: base, base_scaled, big,"),
        ("model=transfomer", "Did you mean 'transformer'? Valid choices for model: "),
        ("model=memn3n", "Did you mean 'memnn' or 'memn2n'? "),
        ("variation=uniform", "Did you mean 'quickstart/uniform' or 'weighted_table3/uniform'?"),
        ("lr=0.1", "lr=0.1: there is no key or group 'lr'. Did you mean recipe.lr=0.1?"),
        ("beam_size=5", "Did you mean decode.beam=5?"),
        ("max_epochs=5", "Did you mean trainer.max_steps=5?"),
        ("gpus=2", "Did you mean trainer.devices=2?"),
        ("quick=recipe", "there is no key or group 'quick'"),
        ("trainer.max_step=5", "Did you mean trainer.max_steps=5?"),
        ("recipe.zzz=1", "there is no key 'recipe.zzz'. Keys of recipe: name,"),
        ("+model.foo=3", "there is no key 'model.foo'"),
        ("model.N=2.5", "model.N=2.5: must be a whole number, at least 1."),
        ("model.N=1e2", "model.N=100.0: write a whole number without point and exponent: model.N=100."),
        ("recipe.batch_tokens=1e9", "recipe.batch_tokens=1000000000: must be at most 16777216."),
        ("trainer.max_steps=1e30", "trainer.max_steps=1000000000000000019884624838656: must be at most 1000000000."),
        ("sweep.lease_seconds=1e-9", "sweep.lease_seconds=1e-09: must be at least 1 and at most 86400."),
        ("model.N=true", "model.N=True: must be a whole number"),
        ("model.h=null", "model.h=null: a value is needed"),
        ("deterministic=2", "deterministic=2: must be true or false."),
        ("rows=a", "rows=a: a list needs brackets: type rows=[a]."),
        ("rows=a,b", "rows=a,b: a list needs brackets: type rows=[a,b]."),
        ("seeds=1,2", "seeds=1,2: a list needs brackets: type seeds=[1,2]."),
        ("row=a", "Did you mean rows=[a]? For one run of a row, type variation=TABLE/ROW."),
        ("variation=quickstart/unform", "Did you mean 'quickstart/uniform'? Rows of this table: quickstart/"),
        ("variation=nothing", "there is no such option. Type variation=TABLE/ROW; tables: attention_table2, "),
        ("variation=quickstart", "quickstart is a table: choose one of its rows, quickstart/learned_positions, "),
        ("hydra.launcher=slurm", "a group is chosen with a slash: type hydra/launcher=slurm."),
        ("seeds=[1", "'seeds=[1' cannot be read: its brackets do not match."),
        ("sweep.at_once=0", "sweep.at_once=0: must be a whole number, at least 1, or auto."),
        ("sweep.at_once=1.5", "sweep.at_once=1.5: must be a whole number, at least 1, or auto."),
        ("sweep.at_once=lots", "sweep.at_once=lots: must be a whole number, at least 1, or auto."),
        ("sweep.at_once=[2]", "sweep.at_once=[2]: must be a whole number, at least 1, or auto."),
        ("sweep.seeds=[1,x]", "must be a list of whole numbers such as [1,2]."),
        ("model.kind=[a]", "model.kind=[a]: must be one of transformer, weighted."),
        ("logger.mode=onlin", "logger.mode=onlin: valid choices are online, offline, disabled. Did you mean 'online'?"),
        ("model=null", "model=null: the group cannot be left out. Valid choices for model: additive,"),
        ("~size", "~size: the group size cannot be left out. Valid choices for size: base,"),
        ("+variation=quickstart/uniform", "variation is a group; write it without +."),
        ("+trainer.max_steps=5", "+trainer.max_steps=5: the key trainer.max_steps exists already; write it without +."),
        ("experiment=base", "type variation=TABLE/ROW for a row of a table, --multirun sweep=NAME for a whole table."),
        ("+experiment=base", "type variation=TABLE/ROW for a row of a table"),
        ("callback=early_stopping", "callbacks=early_stopping"),
        ("ckpt_path=last.ckpt", "continues from its last checkpoint when the same command is run again."),
        (
            "hydra.run.dir=here",
            "Hydra makes no folders here; runs=FOLDER, name=NAME and sweep.name=NAME set a run's folder",
        ),
        ("hydra.sweep.dir=here", "Hydra makes no folders here"),
        ("hydra/launcher=basic", "rows are run by local, slurm or ray"),
        ("hydra/sweeper=basic", "leave it out, grids work without it"),
        ("seed=4294967296", "seed=4294967296: must be at least 0 and at most 4294967295."),
        ("name='a\nb'", "use no slash, no line break"),
        (f"name={'x' * 300}", "name=xxxxxxxxxxxxxxxxxxxx… is too long to name a folder: use at most 200 bytes."),
        ("~model.h", "~model.h: the key model.h cannot be removed"),
        ("weighted", "'weighted' is not KEY=VALUE"),
        ("seed=[1", "'seed=[1' cannot be read"),
        ("model=transformer,weighted", "lists several values: add --multirun"),
        ("hydra/launcher=slrm", "hydra/launcher=slrm: there is no such option."),
        ("branch=uniform", "branch=uniform has no effect with model=transformer: add model=weighted"),
        ("branch.impl=naive", "branch.impl=naive has no effect with model=transformer"),
        ("sweep=quickstart", "sweep=quickstart has many runs: add --multirun"),
        ("rows=[a]", "add sweep=NAME"),
    ],
)
def test_one_bad_override_gives_one_fault(line: str, message: str) -> None:
    (fault,) = faults_of(line)
    assert message in fault


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        ["model=weighted", "branch=uniform"],
        ["model=weighted", "branch.gate.kind=topk", "branch.gate.k=4"],
        ["seed=2", "name='a,b'", "data.root=null", "logger.tags=[x,y]", "recipe.lr=1"],
        ["variation=quickstart/weighted", "branch.impl=naive"],
        ["+variation.published.bleu=3", "~debug"],
        ["debug=null", "sweep=null", "variation=null"],
        ["logger=null"],
        ["~logger"],
        ["seed=4294967295", "seed=4294967295"],
        ["sweep=quickstart", "variation=quickstart/uniform"],
        ["model.d_model=${model.d_ff}"],
        ["hydra.verbose=true"],
        ["sweep.at_once=auto"],
        ["sweep.at_once=null"],
    ],
)
def test_good_overrides_have_no_fault(lines: list[str]) -> None:
    assert faults_of(*lines) == []


@pytest.mark.slow
def test_a_key_given_twice_is_a_fault() -> None:
    assert faults_of("model.h=2", "model.h=4") == ["model.h=4 and model.h=2: model.h is given twice; leave one out."]
    assert len(faults_of("model=weighted", "model=transformer")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("line", ["~logger", "logger=null", "logger=none"])
def test_the_logger_is_switched_off(line: str, tmp_path: Path) -> None:
    assert compose_run([line]).logger.kind == "none"
    done = train(line, "--cfg", "job", "-p", "logger.kind", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "none\n", "")


@pytest.mark.slow
def test_a_glob_that_matches_nothing_says_how_rows_are_named() -> None:
    (fault,) = faults_of("variation=glob(*)", multirun=True)
    assert fault.startswith("variation=glob(*) matches no option of variation, such as variation=glob(")
    assert fault.endswith("/*).")


@pytest.mark.slow
def test_faults_that_follow_from_a_rejected_override_are_not_reported() -> None:
    assert faults_of("model=weightd", "branch=uniform") == [
        "model=weightd: there is no such option. Did you mean 'weighted'? "
        f"Valid choices for model: {', '.join(sorted(path.stem for path in (CONF / 'model').glob('*.yaml')))}."
    ]
    assert len(faults_of("sweep=quickstrt", "rows=[uniform]")) == 1


@pytest.mark.slow
def test_grids_are_checked_in_every_combination() -> None:
    found = faults_of("model=transformer,weighted", "model.h=4,3", "modle=x", "branch.gate.k=9", multirun=True)
    assert len(found) == 2
    assert "modle" in found[0]
    assert "rows model=transformer,model.h=3,branch.gate.k=9, model=weighted,model.h=3,branch.gate.k=9: " in found[1]
    assert "model.h=3 does not divide model.d_model=128" in found[1]


@pytest.mark.slow
def test_keys_of_the_launcher_are_checked_together_with_the_others() -> None:
    found = faults_of(
        *("sweep=quickstart", "hydra/launcher=slurm", "modle=x", "hydra.launcher.time=5", "hydra.launcher.zzz=1"),
        *("hydra.launcher.cpus=lots", "hydra.launcher.mem_gb=0", "+hydra.launcher.additional.constraint=a100"),
        multirun=True,
    )
    assert found[0].startswith("modle=x: ")
    assert found[1].startswith(
        "hydra.launcher.time=5: hydra/launcher=slurm has no key 'time'. Did you mean hydra.launcher.time_min? "
        "Time limit of a job in minutes"
    )
    assert found[2].startswith("hydra.launcher.zzz=1: hydra/launcher=slurm has no key 'zzz'. Its keys are partition, ")
    assert found[3:] == [
        "hydra.launcher.cpus=lots: must be a whole number. CPU cores for each device, or on a CPU for each process.",
        "hydra.launcher.mem_gb=0: must be greater than 0.",
    ]
    (fault,) = faults_of("sweep=quickstart", "hydra.launcher.per_gpu=0", multirun=True)
    assert fault.startswith("hydra.launcher.per_gpu=0: must be a whole number, at least 1, or auto.")
    (fault,) = faults_of("sweep=quickstart", "hydra.launcher.partition=x", multirun=True)
    assert "hydra/launcher=local has no key 'partition'. It is a key of hydra/launcher=slurm." in fault


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
    ],
)
def test_faults_of_a_sweep_file_name_its_keys_as_they_are_written(written: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(f"name: mine\ntable: quickstart\nseeds: [1]\n{written}\n")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
    assert found == [f"{path}: {fault}"]


@pytest.mark.slow
def test_the_rows_of_a_sweep_tell_their_task() -> None:
    lines = ["sweep=babi_ours", "model.restarts=1"]
    assert faults_of(*with_task(lines), multirun=True) == []
    assert with_task(lines) == [*lines, "task=question_answering"]
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
def test_a_sweep_file_with_a_list_says_what_it_must_contain(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_text("- rows\n- seeds\n")
    (fault,) = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
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
            "One of your own needs its package installed, or --config-dir=FOLDER.",
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
            "{folder}/variation/mine/row.yaml is not valid YAML: line 3, column 1: a tab; indent with spaces",
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
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
    assert found == [f"row row: {fault.replace('{folder}', str(tmp_path))}"]


@pytest.mark.slow
def test_all_faults_of_a_sweeps_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("name: mine\nrows: [quickstart/transformer]\nseeds: [1, x]\nmetrik: bleu\nat_once: [2]\n")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
    assert sorted(found) == [
        f"{path}: at_once: must be a single value, not [2]",
        f"{path}: seeds[1]: must be a whole number, not 'x'",
        f"{path}: unknown key 'metrik'. Did you mean 'metric'?",
    ]

    rows = "[quickstart/transformer, quickstart/nobody, quickstart/uniform]"
    path.write_text(f"name: other\nrows: {rows}\noverrides: [size=tinny, model.hh=2]\nmetric: blue\n")
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
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
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
    all_starts = ["unknown key 'metrik'. Did you mean 'metric'?", "seeds: must be a list such as [1,2]", *starts]
    assert len(found) == len(all_starts)
    assert all(text.startswith(f"{path}: {start}") for text, start in zip(found, all_starts, strict=True)), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "fault"),
    [
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
            "folders of their runs.",
        ),
    ],
)
@pytest.mark.parametrize(
    ("verb", "schema", "several"),
    [
        ("train", TranslationConfig, True),
        ("plan", PlanConfig, False),
        ("table", TableConfig, False),
        ("record", RecordConfig, False),
        ("figures", FiguresConfig, False),
    ],
)
def test_a_sweep_file_that_cannot_be_used_is_told_by_every_verb(
    written: str, fault: str, verb: str, schema: type[Any], several: bool, tmp_path: Path
) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(written)
    register_schema(schema, verb)
    found = preflight(["sweep=mine"], schema, verb, multirun=several, axes=not several, extra_folder=str(tmp_path))
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
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
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
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
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
    found = preflight([f"sweep={name}"], schema, verb, multirun=verb == "train", extra_folder=str(tmp_path))
    assert found[0] == fault.format(path=path)


def test_claims_and_python_refuse_a_sweep_file_of_another_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("variations.configuration.doors._typed", [tmp_path])
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("name: other\ntable: quickstart\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: name: other is not the name of the file: write name: mine"):
        compose_sweep("mine")


@pytest.mark.slow
def test_a_name_on_the_command_line_replaces_that_of_a_sweep_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("name: other\ntable: quickstart\n")
    lines = ["sweep=mine", "sweep.name=third"]
    assert preflight(lines, TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ("row: own, base: bass", "variation.base=bass: there is no such row. Did you mean 'base'? Valid: base, own."),
        (
            "row: other, base: base",
            "its file conf/variation/mine/own.yaml says row: other. Write row: own, or rename the file.",
        ),
        ("base: base", "conf/variation/mine/own.yaml names no row: write `row: own` below `variation:`."),
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
    found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
    assert found == [f"row own: {fault}"]


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
        found = preflight(["sweep=mine"], TranslationConfig, "train", multirun=True, extra_folder=str(tmp_path))
    assert found == [f"{path}: rows: {fault}"]


def test_several_sweeps_are_one_fault() -> None:
    line = "sweep=quickstart,my_ablation"
    assert faults_of(line, multirun=True) == [f"{line}: one sweep at a time: run the command once for each."]


@pytest.mark.slow
def test_help_is_short_and_tells_what_to_type(tmp_path: Path) -> None:
    done = train("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    for part in (
        "--multirun sweep=quickstart",
        "transformer*",
        "quickstart/… (4 rows)",
        "seed=1",
        "Root of the run store",
    ):
        assert part in done.stdout
    assert len(done.stdout.splitlines()) < 70
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_configuration_can_be_printed_from_anywhere(tmp_path: Path) -> None:
    done = train("--cfg", "job", "-p", "model", "--resolve", "model=weighted", "size=big", cwd=tmp_path)
    assert done.returncode == 0
    assert "d_model: 1024" in done.stdout
    assert "kind: weighted" in done.stdout
    assert "schema/translation" in train("--info", "defaults", cwd=tmp_path).stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("decode.beam=0",), ("--multirun", "sweep=quickstart", "rows=[x]")])
def test_help_and_faults_load_no_heavy_library(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    script = tmp_path / "look.py"
    script.write_text(
        "import atexit, runpy, sys\n"
        "heavy = ('torch', 'pytorch_lightning', 'wandb', 'matplotlib', 'sentencepiece', 'optuna')\n"
        "atexit.register(lambda: print('loaded:', [name for name in heavy if name in sys.modules]))\n"
        f"sys.path.insert(0, {str(ROOT / 'src')!r})\n"
        f"runpy.run_path({str(ROOT / 'src' / 'train.py')!r}, run_name='__main__')\n"
    )
    done = run(script, *arguments, cwd=tmp_path)
    assert "loaded: []" in done.stdout


@pytest.fixture
def verb(tmp_path: Path) -> Path:
    script = tmp_path / "verb.py"
    script.write_text(FAKE_VERB)
    return script


@pytest.mark.slow
def test_a_verb_without_configuration_files_works(verb: Path, tmp_path: Path) -> None:
    done = run(verb, "count=3", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False VerbConfig 3\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["verb.py"]
    told = run(verb, "--help", cwd=tmp_path).stdout
    assert told.startswith("Does something.\n\nUsage: ")
    assert "How often." in told
    assert re.search(r"^  python src/verb\.py what=fine  the usual$", told, flags=re.MULTILINE)


@pytest.mark.slow
def test_a_users_fault_has_exit_code_2_and_no_traceback(verb: Path, tmp_path: Path) -> None:
    done = run(verb, "what=data", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: train.de, line 3 is not UTF-8.\n")


@pytest.mark.slow
def test_a_fault_of_ours_has_exit_code_1_and_a_whole_traceback(verb: Path, tmp_path: Path) -> None:
    done = run(verb, "what=bug", cwd=tmp_path)
    assert done.returncode == 1
    assert "in act" in done.stderr
    assert "ZeroDivisionError: a fault of ours" in done.stderr


@pytest.mark.slow
def test_ctrl_c_tells_how_to_continue(verb: Path, tmp_path: Path) -> None:
    done = run(verb, "what=stop", "count=2", cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.endswith(f"run the same command again:\n  python {verb} what=stop count=2\n")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_rows_are_composed_tells_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("variations.commands.cli.preflight", interrupted)
    monkeypatch.setattr(sys, "argv", ["src/train.py", "--multirun", "sweep=quickstart"])
    with pytest.raises(SystemExit) as stop:
        command(lambda config: None, schema=TranslationConfig, config_name="train", multirun=True)()
    assert stop.value.code == 130
    assert capsys.readouterr().err == (
        "\nInterrupted. To continue, run the same command again:\n  python src/train.py --multirun sweep=quickstart\n"
    )


@pytest.mark.slow
def test_flags_may_stand_anywhere(tmp_path: Path) -> None:
    done = train("model=weighted", "--cfg", "job", "size=big", "-p", "model.N", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "6\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--config-dir", "nowhere", "seed=1"), "--config-dir nowhere: there is no such folder."),
        (("--cfg", "job", "--multirun"), "use one of them at a time"),
        (("--config-name", "nothing"), "Cannot find primary config 'nothing'"),
        (("hydra.foo=1",), "unknown key 'hydra.foo'"),
        (("--multirun", "sweep=quickstart", "sweep.name=../x"), "cannot name a run"),
    ],
)
def test_misused_flags_are_told_without_traceback(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = train(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_other_verbs_do_not_sweep(verb: Path, tmp_path: Path) -> None:
    done = run(verb, "--multirun", cwd=tmp_path)
    assert done.returncode == 2
    assert "--multirun is for python src/train.py; this command cannot use it." in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["-multirun", "sweep=quickstart"], "-multirun: there is no such flag. Did you mean '--multirun'?"),
        (["--mutirun", "sweep=quickstart"], "--mutirun: there is no such flag. Did you mean '--multirun'?"),
        (["--cfg", "foo"], "invalid choice: 'foo'"),
    ],
)
def test_a_mistyped_flag_is_one_sentence(typed: list[str], told: str, tmp_path: Path) -> None:
    done = train(*typed, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "usage:" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def console(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    line = [sys.executable, "-m", "variations.commands.console", *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, env=environment, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",)])
def test_the_console_command_lists_the_verbs_of_src(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = console(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = re.findall(r"^  (\w+)  +\w", done.stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "src").glob("*.py"))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("tabel", "Did you mean 'table'?"),
        ("plan.py", "Did you mean 'plan'?"),
        ("src/train.py", "Did you mean 'train'?"),
        ("model=weighted", "Did you mean 'variations train model=weighted'?"),
        ("--multirun", "Did you mean 'variations train --multirun'?"),
        ("zzz", "The verbs are train, new, plan, table,"),
    ],
)
def test_a_mistyped_verb_is_one_sentence(
    word: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["variations", word])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {word}: there is no such verb.")
    assert hint in told.err


@pytest.mark.slow
def test_help_and_faults_say_the_form_that_was_typed(tmp_path: Path) -> None:
    told = console("train", "--help", cwd=tmp_path).stdout
    assert "Usage: variations train [" in told
    assert "  variations train --multirun sweep=quickstart  " in told
    assert "src/train.py" not in told
    fault = console("train", "sweep=quickstart", cwd=tmp_path)
    assert fault.returncode == 2
    assert "or ask variations plan for their cost." in fault.stderr
    assert "or ask python src/plan.py for their cost." in train("sweep=quickstart", cwd=tmp_path).stderr


def test_a_door_in_src_is_the_verb_itself() -> None:
    for path in (ROOT / "src").glob("*.py"):
        statements = ast.parse(path.read_text(encoding="utf-8")).body[1:]
        assert ast.unparse(statements[0]) == "from variations.commands.console import start"
        assert ast.unparse(statements[1]) == f"if __name__ == '__main__':\n    start('{path.stem}')"
        assert len(statements) == 2


def test_ctrl_c_during_the_imports_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    monkeypatch.setattr(sys, "argv", ["src/table.py", "sweep=quickstart"])
    with pytest.raises(SystemExit) as stop:
        start("table")
    assert stop.value.code == 130
    told = "\nInterrupted. To continue, run the same command again:\n  python src/table.py sweep=quickstart\n"
    assert capsys.readouterr().err == told


INTERRUPTED = """
import atexit, os, signal, sys, time, types
from variations.commands.console import start


def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)


class Ending:
    __del__ = interrupt


def main():
    {main}


sys.modules["variations.commands.fake"] = types.SimpleNamespace(main=main)
start("fake")
"""
CONTINUE = "\nInterrupted. To continue, run the same command again:\n  python verb.py\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("main", "code", "told"),
    [
        ("interrupt()", 130, CONTINUE),
        ("Ending(); time.sleep(20)", 130, CONTINUE),  # Python drops what a destructor raises
        ("sys.unraisablehook(types.SimpleNamespace(exc_type=KeyboardInterrupt)); time.sleep(20)", 130, CONTINUE),
        ("try: interrupt()\n    finally: None.missing", 130, CONTINUE),  # a library that was half-way
        ("atexit.register(interrupt)", 130, "\nInterrupted.\n"),
        ("sys.last = Ending()", 0, ""),  # destroyed with the interpreter
    ],
    ids=["in the verb", "in a destructor", "dropped", "in a library", "at the end", "in the last moment"],
)
def test_ctrl_c_at_any_time_leaves_no_traceback(main: str, code: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "verb.py").write_text(INTERRUPTED.replace("{main}", main))
    done = run(Path("verb.py"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, told)


def test_ctrl_c_while_omegaconf_composes_is_no_fault_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise OmegaConfBaseException("half-way")

    monkeypatch.setattr("variations.configuration.hydra_door.compose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compose_node(["seed=12345"])


def test_ctrl_c_tells_the_form_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("variations.commands.cli.preflight", interrupted)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/variations", "train", "--multirun", "name='a b'"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.endswith("\n  variations train --multirun 'name='\"'\"'a b'\"'\"''\n")
