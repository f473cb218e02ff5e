"""Tab completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from variations.commands.completion import candidates, completion
from variations.commands.plan import PlanConfig
from variations.commands.table import TableConfig
from variations.system.errors import ConfigError
from variations.tasks.translation.config import TranslationConfig

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("size=b", ["size=base", "size=base_scaled", "size=big"]),
        ("seed=1 recipe.sched", ["recipe.schedule="]),
        ("recipe.schedule=n", ["recipe.schedule=noam"]),
        ("trainer.progress=", ["trainer.progress=true", "trainer.progress=false"]),
        ("--multirun model=transformer,w", ["model=transformer,weighted"]),
        ("variation=quickstart/t", ["variation=quickstart/transformer"]),
        ("model.hop", []),
        ("task=question_answering model.hop", ["model.hops="]),
        ("sweep=attention_table4 data.ext", ["data.extra="]),
        ("recipe.lr=", []),
        ("nobody=", []),
    ],
)
def test_what_may_be_typed_next_is_known(typed: str, found: list[str]) -> None:
    assert candidates(f"python src/train.py {typed}", TranslationConfig, "train") == found


def test_a_command_that_does_not_train_has_its_own_keys() -> None:
    assert candidates("variations table form", TableConfig, "table") == ["format="]
    assert candidates("variations table format=l", TableConfig, "table") == ["format=latex"]
    assert candidates("variations table sweep=quick", TableConfig, "table") == ["sweep=quickstart"]
    assert candidates("variations table swe", TableConfig, "table")[0] == "sweep="
    assert candidates("variations table mod", TableConfig, "table") == []
    assert candidates("python src/plan.py meas", PlanConfig, "plan") == ["measure="]
    assert candidates("python src/plan.py format=js", PlanConfig, "plan") == ["format=json"]


@pytest.mark.parametrize("asked", [[], ["install=tcsh"], ["install=bash", "seed=1"]])
def test_other_shells_are_refused(asked: list[str]) -> None:
    with pytest.raises(ConfigError, match="the valid choice is install=bash"):
        completion(asked, TableConfig, "table")


@pytest.mark.slow
def test_bash_completes_our_commands_and_runs_no_other_program(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    script = completion(["install=bash"], TableConfig, "table")
    for words, found in (
        (["python", "src/table.py", "format=l"], "latex"),  # bash keeps what stands before =
        (["variations", "ta"], "table"),
        (["variations", "nobody", "x"], ""),
        (["python", str(other), "--he"], ""),
        (["python", "src/variations/__init__.py", "--he"], ""),
    ):
        line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE={' '.join(words)!r}"
        told = f'{script}\n{line}; COMP_POINT=${{#COMP_LINE}}; _variations; echo "${{COMPREPLY[*]}}"'
        paths = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            ["bash", "-c", told], cwd=ROOT, env=os.environ | paths, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == (f"{found}\n", "")
    assert not (tmp_path / "ran").exists()
