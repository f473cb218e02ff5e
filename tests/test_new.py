"""`new` creates a sweep that composes unchanged, and never overwrites a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from variations.commands import new
from variations.system.errors import UserError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder outside the checkout, as with an installed package."""
    monkeypatch.setattr(new, "IN_CHECKOUT", False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(folder: Path, sweep: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [ROOT / "src/plan.py", f"hydra.searchpath=[file://{folder}/conf]", f"sweep={sweep}", "measure=false"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    whole = [sys.executable, *line, *arguments]
    return subprocess.run(whole, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_the_table_is_planned_as_it_was_made(elsewhere: Path) -> None:
    made = new.create("heads", ["one_head", "learned-keys"])
    names = ["sweep/heads.yaml", *(f"variation/heads/{row}.yaml" for row in ("base", "one_head", "learned-keys"))]
    assert made == [elsewhere / "conf" / name for name in names]
    done = plan(elsewhere, "heads")
    assert done.returncode == 0, done.stderr
    rows = {words[0]: words for text in done.stdout.splitlines() if (words := text.split())}
    assert rows["base"][1] == "base"
    assert "heads 4→1," in " ".join(rows["one_head"])
    assert rows["learned-keys"][2:4] == ["same", "configuration"]
    assert "base; learned-keys: these rows make the same changes and train equal networks." in done.stdout
    assert "2,400" in rows["one_head"]


@pytest.mark.slow
def test_rows_inherit_what_is_written_into_the_base_row(elsewhere: Path) -> None:
    _, base, pre, sinusoidal = new.create("norms", ["pre", "sinusoidal"])
    changed = "defaults:\n  - override /positions: learned\nmodel: {dropout: 0.3, norm: post}\n"
    base.write_text(f"{base.read_text()}{changed}")
    pre.write_text(pre.read_text().replace("h: 1", "norm: pre"))
    choice = "- norms/base\n  - override /positions: sinusoidal"
    sinusoidal.write_text(sinusoidal.read_text().replace("- norms/base", choice))
    done = plan(elsewhere, "norms", "format=json")
    assert done.returncode == 0, done.stderr
    changes = {row["row"]: row["changes"] for row in json.loads(done.stdout)["rows"]}
    assert "P_drop 0.3" in changes.pop("base")
    assert changes == {"pre": "norm post→pre", "sinusoidal": "positions learned→sinusoidal"}


def test_a_checkout_keeps_them_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new, "CONF", tmp_path / "conf")
    monkeypatch.setattr(new, "SWEEPS", tmp_path / "sweeps")
    new.create("mine", [])
    sweep = yaml.safe_load((tmp_path / "sweeps/mine.yaml").read_text(encoding="utf-8"))
    assert sweep["rows"] == ["base", "changed"]
    row = yaml.safe_load((tmp_path / "conf/variation/mine/changed.yaml").read_text(encoding="utf-8"))
    assert row["variation"] == {"table": "mine", "row": "changed", "label": "changed", "base": "base"}


@pytest.mark.parametrize(
    ("name", "rows", "told"),
    [
        ("quickstart", [], "exists already, and nothing is overwritten"),
        ("../up", [], "cannot be used as a name"),
        ("mine", ["a/b"], "cannot be used as a name"),
        ("mine", ["a", "task=parsing"], "task=parsing: name the sweep and its rows only"),
        ("null", [], "'null' cannot be used as a name: in a YAML file it means a value"),
        ("mine", ["yes", "No"], "'yes' cannot be used as a name: in a YAML file it means a value"),
        ("x" * 250, [], "sweep.name=xxxxxxxxxxxxxxxxxxxx… is too long to name a folder"),
        ("mine", ["seed1"], "variation.row=seed1: folders of single seeds have such names"),
        ("single", [], "sweep.name=single: the folder of runs outside a sweep has this name"),
        ("grid", [], "'grid' cannot be used as a name: grids without a sweep.name have it"),
        ("mine", ["nan"], "'nan' cannot be used as a name: in a YAML file it means a value"),
        ("mine", ["base"], "base is the base row's"),
        ("mine", ["one", "one"], "Each row needs a different name"),
    ],
)
def test_what_cannot_be_made_leaves_nothing_behind(elsewhere: Path, name: str, rows: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        new.create(name, rows)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("file", ["sweep/mine.yaml", "variation/mine/other.yaml"])
def test_a_name_of_an_installed_package_is_taken(file: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = elsewhere / "package/conf"
    (place / file).parent.mkdir(parents=True)
    (place / file).write_text("name: mine\n")
    monkeypatch.setattr(new, "installed", lambda: (place,))
    taken = place / file.removesuffix("/other.yaml")
    with pytest.raises(UserError, match=f"^{taken} exists already, and nothing is overwritten: choose another name"):
        new.create("mine", [])
    assert new.create("yours", [])[0] == elsewhere / "conf/sweep/yours.yaml"


def test_only_the_name_is_required(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["new"])
    with pytest.raises(SystemExit, match="2"):
        new.main()
    assert capsys.readouterr().err.endswith("the following arguments are required: NAME\n")


def test_the_rows_that_change_nothing_yet_are_named(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rows, told in (
        (["a", "b", "c"], "a has an example, `h: 1`; without a change, b, c would repeat the base row."),
        ([], "changed has an example, `h: 1`."),
    ):
        monkeypatch.setattr(sys, "argv", ["new", f"mine{len(rows)}", *rows])
        new.main()
        assert capsys.readouterr().err.startswith(f"Write into each row what it changes. {told}\n")


def test_a_second_time_nothing_is_overwritten(elsewhere: Path) -> None:
    new.create("mine", [])
    row = elsewhere / "conf/variation/mine/changed.yaml"
    row.write_text("my own", encoding="utf-8")
    with pytest.raises(UserError, match="exists already, and nothing is overwritten"):
        new.create("mine", [])
    assert row.read_text(encoding="utf-8") == "my own"


def test_what_a_killed_command_has_begun_is_completed_by_the_same_command(elsewhere: Path) -> None:
    paths = new.create("mine", ["one", "two"])
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    paths[0].unlink()
    paths[-1].unlink()
    assert new.create("mine", ["one", "two"]) == paths
    assert {path: path.read_text(encoding="utf-8") for path in paths} == texts
    assert new.create("mine", ["one", "two"]) == paths  # typed twice: unchanged files are no mistake
    assert {path: path.read_text(encoding="utf-8") for path in paths} == texts
    paths[0].write_text("my own", encoding="utf-8")
    with pytest.raises(UserError, match="exists already, and nothing is overwritten"):
        new.create("mine", ["one", "two"])
    assert paths[0].read_text(encoding="utf-8") == "my own"
