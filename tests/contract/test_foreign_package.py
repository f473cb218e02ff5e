"""A third-party package, installed beside ours, adds a corpus, a row and a sweep without changes to ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parent / "foreign_package"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("foreign")
    source = folder / "source"
    subprocess.run(["cp", "-r", str(PACKAGE), str(source)], check=True)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder / "site"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def verb(name: str, *words: str, cwd: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT / "src"), *([str(site)] if site else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}
    command = [sys.executable, "-m", "variations.commands.console", name, *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_an_installed_package_adds_groups_rows_and_sweeps(site: Path, tmp_path: Path) -> None:
    told = verb("train", "--help", cwd=tmp_path, site=site).stdout
    assert "foreign_text" in told
    assert "foreign/… (2 rows)" in told
    words = ["variation=foreign/two_heads", "data=foreign_text", "--cfg", "job", "--resolve"]
    done = verb("train", *words, cwd=tmp_path, site=site)
    assert done.returncode == 0, done.stderr
    assert "label: Two heads" in done.stdout
    assert f"root: {site / 'foreign_variations' / 'text'}" in done.stdout
    missing = verb("table", "sweep=foreigm", cwd=tmp_path, site=site)
    assert "Did you mean 'foreign'?" in missing.stderr


@pytest.mark.slow
def test_its_model_has_keys_of_its_own_which_are_checked_as_ours_are(site: Path, tmp_path: Path) -> None:
    words = ["model=foreign_mean", "model.options.width=8", "--cfg", "job", "-p", "model.options"]
    done = verb("train", *words, cwd=tmp_path, site=site)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "width: 8"), done.stderr
    wrong = ["model.options.pooling=mum", "model.options.wdith=2", "model.options.width=0", "decode.beam=0"]
    told = verb("train", "model=foreign_mean", *wrong, cwd=tmp_path, site=site)
    assert told.returncode == 2
    for part in (
        "4 faults in the configuration:",
        "model.options.pooling=mum: valid choices are mean, max.",
        "model.options.wdith: MeanModel has no such key. Did you mean 'width'? Its keys are width, pooling.",
        "model.options.width=0: must be at least 1.",
        "decode.beam=0: must be at least 1.",
    ):
        assert part in told.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["model.kind=nobody.model:Net"],
            "cannot import nobody.model (No module named 'nobody'). Install its package (pip install",
        ),
        (["model.kind=foreign_variations.model:Net"], "foreign_variations.model has no class Net: check the name"),
        (["model.attention=foreign_variations.model:Net"], "foreign_variations.model has no class Net: check the name"),
        (["positions.kind=nobody.codes:Code"], "positions.kind=nobody.codes:Code: cannot import nobody.codes"),
        (["model.kind=net"], "valid choices are transformer, weighted, or package.module:Class of another package."),
        (["model.options.width=3"], "is for a model of another package: model=transformer has none; leave it out."),
    ],
)
def test_a_model_that_cannot_be_had_is_told(words: list[str], message: str, site: Path, tmp_path: Path) -> None:
    done = verb("train", *words, cwd=tmp_path, site=site)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_package_that_is_not_installed_adds_nothing(tmp_path: Path) -> None:
    done = verb("train", "data=foreign_text", cwd=tmp_path)
    assert done.returncode == 2
    assert "data=foreign_text: there is no such option." in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("sweep/foreign.yaml", ["train", "--multirun", "sweep=foreign", "debug=limit"]),
        ("sweep/foreign.yaml", ["plan", "sweep=foreign", "measure=false"]),
        ("sweep/foreign.yaml", ["table", "sweep=foreign"]),
        ("model/foreign_mean.yaml", ["train", "model=foreign_mean", "debug=limit"]),
    ],
)
def test_its_file_is_not_ignored_where_another_has_its_name(
    file: str, words: list[str], site: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine" / file
    mine.parent.mkdir(parents=True)
    theirs = site / "foreign_variations/conf" / file
    mine.write_text(f"# mine\n{theirs.read_text()}")
    done = verb(*words, f"--config-dir={tmp_path / 'mine'}", cwd=tmp_path, site=site)
    assert (done.returncode, done.stdout) == (2, "")
    told = f"installed package foreign_variations: {theirs} would not be used, because"
    assert done.stderr.count(told) == 1
    assert "Traceback" not in done.stderr
    others = ["variation=quickstart/uniform", "--cfg", "job", "-p", "model.h"]
    assert verb("train", f"--config-dir={tmp_path / 'mine'}", *others, cwd=tmp_path, site=site).returncode == 0


@pytest.mark.slow
def test_its_row_is_not_ignored_by_the_table_of_another_sweep(site: Path, tmp_path: Path) -> None:
    """The table reads the files of rows, and composes none of them."""
    row = Path("variation/foreign/two_heads.yaml")
    mine, theirs = tmp_path / "mine", site / "foreign_variations/conf" / row
    (mine / row).parent.mkdir(parents=True)
    (mine / row).write_text(theirs.read_text().replace("Two heads", "Mine"))
    (mine / "sweep").mkdir()
    (mine / "sweep/mine.yaml").write_text("name: mine\nrows: [quickstart/transformer, foreign/two_heads]\n")
    done = verb("table", f"--config-dir={mine}", "sweep=mine", cwd=tmp_path, site=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"installed package foreign_variations: {theirs} would not be used, because" in done.stderr


@pytest.mark.slow
def test_a_folder_is_named_on_the_command_line(tmp_path: Path) -> None:
    conf = PACKAGE / "foreign_variations" / "conf"
    for place in (f"file://{conf}", f"'file://{os.path.relpath(conf, tmp_path)}'"):
        words = [f"hydra.searchpath=[{place}]", "variation=foreign/two_heads", "--cfg", "job", "-p", "model.h"]
        done = verb("train", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


@pytest.mark.slow
def test_a_package_is_named_on_the_command_line(tmp_path: Path) -> None:
    words = ["hydra.searchpath=[pkg://foreign_variations.conf]", "variation=foreign/two_heads", "--cfg", "job"]
    assert verb("train", *words, cwd=tmp_path, site=PACKAGE).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("file://nowhere", "hydra.searchpath: there is no folder: file://nowhere."),
        ("pkg://nobody.conf", "hydra.searchpath: there is no package with such a folder: pkg://nobody.conf."),
    ],
)
def test_a_place_that_is_not_there_is_told(place: str, message: str, tmp_path: Path) -> None:
    done = verb("train", f"hydra.searchpath=[{place}]", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_its_row_and_its_model_are_trained_in_a_sweep_beside_ours(site: Path, tmp_path: Path) -> None:
    limits = ["debug=limit", "logger=none"]
    done = verb("train", "--multirun", "sweep=foreign", *limits, cwd=tmp_path, site=site)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = verb("table", "sweep=foreign", "format=json", cwd=tmp_path, site=site)
    assert printed.returncode == 0, printed.stderr
    rows = {row["row"]: row for row in json.loads(printed.stdout)["rows"]}
    assert rows["two_heads"]["label"] == "Two heads"
    assert rows["two_heads"]["base"] == "transformer"
    assert rows["mean"]["label"] == "Mean of the source"
    assert {seed["state"] for row in rows.values() for seed in row["seeds"]} == {"finished"}
    frozen = yaml.safe_load((tmp_path / "runs/foreign/mean/seed1/config.yaml").read_text(encoding="utf-8"))
    assert frozen["model"]["options"]["pooling"] == "mean"  # the class's default, which may change
    for row in rows:  # the package's callback was active
        folder = tmp_path / "runs" / "foreign" / row / "seed1"
        checkpoint = torch.load(max(folder.glob("checkpoints/step*.ckpt")), weights_only=True)
        (kept,) = (state for name, state in checkpoint["callbacks"].items() if "CountUpdates" in name)
        assert kept["updates"] == json.loads((folder / "result.json").read_text())["steps"]
