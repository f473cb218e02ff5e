"""The command line: all faults in one message, exit code 2, nothing created on disk, torch not imported."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_lines import run
from hydra._internal.hydra import Hydra

from variations.commands import cli
from variations.commands.console import main
from variations.commands.train import main as train_main
from variations.configuration import doors
from variations.configuration.compose import compose_run

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
@pytest.mark.parametrize("line", ["~logger", "logger=null", "logger=none"])
def test_the_logger_is_switched_off(line: str, tmp_path: Path) -> None:
    assert compose_run([line]).logger.kind == "none"
    done = train(line, "--cfg", "job", "-p", "logger.kind", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "none\n", "")


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
def test_the_configuration_of_each_row_can_be_printed_as_it_would_be_trained(tmp_path: Path) -> None:
    words = ("--multirun", "sweep=toy_attention_table3", "rows=[base,A_h1]", "recipe.lr=0.25", "--cfg", "job")
    rows = list(yaml.safe_load_all(train(*words, cwd=tmp_path).stdout))
    assert [row["variation"]["row"] for row in rows] == ["base", "A_h1"]
    assert [(row["recipe"]["name"], row["recipe"]["lr"]) for row in rows] == [("converged", 0.25)] * 2
    assert (
        train(*words, "-p", "model.h", cwd=tmp_path).stdout
        == "---\n# base, seed 1\n8\n...\n---\n# A_h1, seed 1\n1\n...\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_single_row_of_a_sweep_has_the_overrides_of_its_file(tmp_path: Path) -> None:
    words = ("sweep=demo", "variation=quickstart/transformer", "model.d_ff=64", "--cfg", "job")
    config = yaml.safe_load(train(*words, cwd=tmp_path).stdout)
    assert (config["recipe"]["name"], config["sweep"]["typed"]) == ("quick_cosine", ["model.d_ff=64"])
    assert config["recipe"]["name"] in str(config["sweep"]["overrides"])
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
def test_ctrl_c_tells_how_to_start_anew(verb: Path, tmp_path: Path) -> None:
    done = run(verb, "what=stop", "count=2", cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.endswith(f"To start anew, run the same command again:\n  python {verb} what=stop count=2\n")
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
        (("--cfg", "hydra", "--multirun"), "--multirun goes with --cfg job"),
        (("--cfg", "job", "sweep=quickstart"), "sweep=quickstart has many runs: add --multirun"),
        (("--cfg", "job", "--multirun", "sweep=search_toy"), "A search chooses the values of its trials"),
        (("--cfg", "job", "--multirun", "sweep=quickstart", "-p", "model.n"), "transformer has no such group or key"),
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


@pytest.mark.parametrize(
    ("words", "unset"),
    [
        ([], True),
        (["--multirun", "model=weighted,transformer"], True),
        (["hydra.mode=RUN"], False),
        (["+hydra.mode='MULTIRUN'"], False),
        (["--config-dir", "theirs"], False),
    ],
)
def test_hydra_looks_for_its_mode_only_where_it_may_be_set(
    words: list[str], unset: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", *words, f"runs={tmp_path}"])
    own, seen = Hydra.get_mode, []
    monkeypatch.setattr(cli, "_run", lambda *_: seen.append(Hydra.get_mode))
    monkeypatch.setattr(cli, "preflight", lambda *_, **__: [])
    monkeypatch.setattr(doors, "_given", [])
    train_main()
    assert [found is not own for found in seen] == [unset]
    assert Hydra.get_mode is own


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


@pytest.mark.slow
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
