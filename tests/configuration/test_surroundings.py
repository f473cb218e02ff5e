"""Missing requirements are reported before a run's folder is created; data from another folder is another run."""

from pathlib import Path

import pytest

from variations.commands.run import execute
from variations.configuration import surroundings
from variations.configuration.compose import compose_run, to_dict
from variations.store import naming
from variations.store.ledger import RunFolder
from variations.system.errors import ConfigError, UserError


def test_a_missing_folder_and_a_missing_gpu_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = compose_run([f"runs={tmp_path}/runs", f"data.root={tmp_path}/nowhere", "trainer=gpu", "logger=none"])
    with pytest.raises(ConfigError) as error:
        execute(config)
    assert "nowhere: there is no such folder" in error.value.faults[0]
    assert (
        "torch finds no GPU on this machine. Type the command on one that has it; or use trainer=cpu"
        in error.value.faults[1]
    )
    assert not (tmp_path / "runs").exists()


def test_a_place_that_cannot_hold_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made .* choose another place with runs=DIR"):
        execute(compose_run([f"runs={tmp_path}/file", "logger=none"]))


@pytest.mark.slow
def test_ones_own_text_in_another_folder_is_another_run(tmp_path: Path) -> None:
    def own(root: str, *more: str) -> RunFolder:
        config = compose_run(["data=files", f"data.root={root}", f"runs={tmp_path}", *more])
        return RunFolder(naming.run_folder(config)).create(to_dict(config))

    assert own("a").path != own("b").path
    own("a", "name=mine")
    with pytest.raises(UserError, match=r"data\.root: a → b"):
        own("b", "name=mine")


@pytest.mark.slow
def test_an_unfinished_run_takes_up_a_corrected_place(tmp_path: Path) -> None:
    def public(root: str) -> RunFolder:
        config = compose_run(["data=multi30k", f"data.root={root}", f"runs={tmp_path}", "name=m"])
        return RunFolder(naming.run_folder(config)).create(to_dict(config))

    public("wrong").set_status("failed", "no such folder")
    assert public("right").config()["data"]["root"] == "right"
    public("right").write_result({"schema": 1})
    public("right").set_status("finished")
    assert public("elsewhere").config()["data"]["root"] == "right"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["data.vocabulary=200000"], r"data\.vocabulary=200000 is too large for the training text"),
        (["decode.sets=[test,flickr]"], r"decode\.sets names flickr, but the corpus has only dev, test"),
    ],
)
def test_what_only_the_data_can_tell_leaves_no_folder(words: list[str], text: str, tmp_path: Path) -> None:
    short = [f"data.root={_short_text(tmp_path)}", "data=files", f"data.cache={tmp_path / 'cache'}", "logger=none"]
    with pytest.raises(UserError, match=text):
        execute(compose_run([*short, f"runs={tmp_path}/runs", "trainer.progress=false", *words]))
    assert not list((tmp_path / "runs").rglob("seed*"))


def _short_text(place: Path) -> Path:
    folder = place / "text"
    folder.mkdir()
    for name in ("train", "valid", "test"):
        for language in ("en", "de"):
            (folder / f"{name}.{language}").write_text(f"a few words of {language}\n" * 20)
    return folder


def test_a_mode_that_wandb_does_not_have_is_told_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "garbage")
    (fault,) = surroundings.faults(compose_run())
    assert fault.startswith("WANDB_MODE=garbage: must be one of online, offline, shared, disabled")
    for words in (["logger=none"], ["logger.mode=offline"]):
        assert surroundings.faults(compose_run(words)) == []


def test_processes_on_a_cpu_are_not_many_more_than_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "cores", lambda: 2)
    ddp = ["trainer=ddp", "trainer.accelerator=cpu", "logger=none"]
    assert surroundings.faults(compose_run([*ddp, "trainer.devices=4"])) == []
    assert surroundings.faults(compose_run([*ddp, "trainer.devices=200"])) == [
        "trainer.devices=200: without a GPU, each device is a process, and this machine has 2 CPU cores; use at most 4."
    ]


def test_nothing_is_trained_in_a_store_of_records(tmp_path: Path) -> None:
    run = tmp_path / "heads" / "base" / "seed1"
    run.mkdir(parents=True)
    config = compose_run([f"runs={tmp_path}"])
    assert surroundings.faults(config) == []
    (run / "metrics.jsonl.gz").touch()
    (told,) = surroundings.faults(config)
    assert told.startswith(f"runs={tmp_path} contains records of runs, in which nothing can be trained")
