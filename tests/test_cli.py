"""The command line: all faults in one message, exit code 2, nothing created on disk, torch not imported."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import faults_of, run

from variations.commands.console import main
from variations.configuration.compose import compose_run
from variations.configuration.places import CONF

pytestmark = pytest.mark.usefixtures("restored_signals")

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


def train(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(ROOT / "src" / "train.py", *arguments, cwd=cwd)


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
    ("lines", "message"),
    [
        (["trainer.limit_test=3"], "trainer.limit_test=3 has no effect: this task always uses its whole test"),
        (["recipe.warmup=5"], "recipe.warmup=5 has no effect: in this task the rate is halved"),
        (["recipe.beta1=0.5"], "recipe.beta1=0.5 has no effect: it is a key of recipe.optimizer=adam"),
        (["data.questions=10k"], "data.questions=10k has no effect: it is a key of data.kind=babi"),
        (["recipe.lr=0.1", "recipe.linear_epochs=2"], "recipe.lr=0.1 has no effect: with recipe.linear_epochs"),
    ],
)
def test_keys_that_question_answering_does_not_use_are_faults(lines: list[str], message: str) -> None:
    (fault,) = faults_of("task=question_answering", *lines)
    assert fault.startswith(message)
    assert faults_of("task=question_answering", "recipe.optimizer=adam", "recipe.beta1=0.5", "recipe.lr=0.1") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sweep", "row", "unused", "message"),
    [
        ("toy_weighted_table2", "C_transformer", "branch.impl=naive", "has no effect with model=transformer"),
        ("babi_memn2n_1k", "bow", "model.episode=gru", "has no effect with model=memn2n: it is a key of dmn."),
        ("babi_memn2n_1k", "bow", "recipe.beta1=0.5", "has no effect: it is a key of recipe.optimizer=adam"),
    ],
)
def test_a_key_that_no_row_of_a_sweep_uses_is_a_fault(sweep: str, row: str, unused: str, message: str) -> None:
    task = ["task=question_answering"] if sweep.startswith("babi") else []
    (fault,) = faults_of(*task, f"sweep={sweep}", f"rows=[{row}]", unused, multirun=True)
    assert f"{unused} {message}" in fault


@pytest.mark.slow
def test_a_key_that_one_row_of_a_sweep_uses_is_none() -> None:
    assert faults_of("sweep=toy_weighted_table2", "branch.impl=naive", multirun=True) == []


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
        ["name=nan"],  # a text that looks like a number
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
    assert "--multirun is for python src/train.py; leave it out here." in done.stderr


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
