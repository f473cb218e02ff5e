"""Whether W&B is online: decided without importing it."""

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import CSVLogger

from variations.configuration.schema import LoggerConfig
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.translation.config import TranslationConfig
from variations.training.tracking import Trackers, trackers, weights_and_biases
from variations.training.tracking.final import Final
from variations.training.tracking.lightning_loggers import LightningLogger
from variations.training.tracking.mode import chosen_mode, without_key
from variations.training.tracking.weights_and_biases import WeightsAndBiases, tags


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def test_it_is_offline_where_nobody_is_logged_in() -> None:
    assert chosen_mode(None) == "offline"


def test_it_is_online_with_a_key_or_a_netrc_entry_of_the_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine wandb.example.org login user password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    assert chosen_mode(None) == "offline"
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert chosen_mode(None) == "online"
    monkeypatch.delenv("WANDB_BASE_URL")
    monkeypatch.setenv("WANDB_API_KEY", "k")
    assert chosen_mode(None) == "online"


@pytest.mark.parametrize(
    ("variable", "wanted", "mode"),
    [
        ("offline", None, "offline"),
        ("dryrun", None, "offline"),
        ("disabled", None, "disabled"),
        ("shared", None, "online"),
        ("", None, "online"),
        ("offline", "online", "online"),
    ],
)
def test_the_configuration_wins_over_wandb_mode_and_that_over_the_login(
    monkeypatch: pytest.MonkeyPatch, variable: str, wanted: str | None, mode: str
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k")
    monkeypatch.setenv("WANDB_MODE", variable)
    assert chosen_mode(wanted) == mode


def test_an_empty_wandb_mode_is_as_good_as_unset_for_wandb_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "")
    assert chosen_mode(None) == "offline"
    assert "WANDB_MODE" not in os.environ


def test_disabled_means_no_logger_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    opened = trackers(TranslationConfig(logger=LoggerConfig(kind="wandb")), RunFolder(tmp_path))
    opened.start(RunFolder(tmp_path))
    assert not opened.any
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_choosing_a_logger_imports_neither_wandb_nor_tensorboard() -> None:
    code = (
        "import sys; from variations.training.tracking import trackers; "
        "from variations.training.tracking.mode import chosen_mode; "
        "chosen_mode(None); print([m for m in ('wandb', 'tensorboard', 'torch', 'matplotlib') if m in sys.modules])"
    )
    env = {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_key_in_the_text_of_an_error_is_struck_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123abcd")
    assert without_key("no user has\n 0123abcd") == "no user has (hidden)"


def test_tags_name_table_row_model_data_and_recipe_and_are_short() -> None:
    config = TranslationConfig(logger=LoggerConfig(tags=["x" * 100]))
    config.variation.table, config.variation.row, config.debug.name = "attention_table3", "A_h16", "limit"
    network = ["N6", "d512", "transformer"]
    assert tags(config) == sorted(["A_h16", "attention_table3", "debug-limit", "quick", "toy", *network, "x" * 64])


def test_the_user_hears_what_is_waited_for(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(weights_and_biases, "PATIENCE_SECONDS", 0.01)
    with weights_and_biases._told_if_slow("offline"):
        time.sleep(0.2)
    assert caplog.messages == []
    with weights_and_biases._told_if_slow("online"):
        deadline = time.monotonic() + 30
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.01)
    assert caplog.messages == ["W&B has not answered yet; waiting for up to 30 s."]
    monkeypatch.setattr(weights_and_biases, "PATIENCE_SECONDS", 600.0)
    with weights_and_biases._told_if_slow("online"):
        (timer,) = (thread for thread in threading.enumerate() if isinstance(thread, threading.Timer))
    timer.join(30)
    assert not timer.is_alive() and len(caplog.messages) == 1


@pytest.mark.slow
def test_what_wandb_itself_refuses_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import wandb

    wandb.teardown()  # it reads the environment once in a process, and an earlier test may have used it
    monkeypatch.setenv("WANDB_SILENT", "zz")
    folder = RunFolder(tmp_path / "sweep" / "row" / "seed1")
    folder.path.mkdir(parents=True)
    with pytest.raises(UserError, match=r"^W&B cannot be used: [^\n]*valid boolean[^\n]*\(logger=none\)\.$"):
        WeightsAndBiases(TranslationConfig(), folder, "offline")


def test_a_copy_of_a_runs_folder_under_another_name_is_another_run_of_the_service(tmp_path: Path) -> None:
    """With one identifier, whichever is synced later would replace the other."""
    folder = RunFolder(tmp_path / "single" / "a" / "seed1")
    folder.path.mkdir(parents=True)
    first = weights_and_biases._identifier(TranslationConfig(), folder)
    assert weights_and_biases._identifier(TranslationConfig(), folder) == first
    shutil.copytree(tmp_path / "single", tmp_path / "fork" / "single")
    assert weights_and_biases._identifier(TranslationConfig(), RunFolder(tmp_path / "fork/single/a/seed1")) == first
    shutil.copytree(tmp_path / "single" / "a", tmp_path / "single" / "b")
    other = weights_and_biases._identifier(TranslationConfig(), RunFolder(tmp_path / "single" / "b" / "seed1"))
    assert other.rpartition("-")[0] == first.rpartition("-")[0] and other != first
    (folder.path / "wandb.json").write_text('{"id": "of before the name was stored"}')
    assert weights_and_biases._identifier(TranslationConfig(), folder) == "of before the name was stored"


class Mirror:
    """A logger that fails at one of its calls."""

    name = "Mirror"

    def __init__(self, fails: str = "", error: BaseException | None = None) -> None:
        self.fails = fails
        self.calls: list[str] = []
        self.error = error or ConnectionError("Connection lost")

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> None:
            self.calls.append(name)
            if name == self.fails:
                raise self.error

        return call


@pytest.mark.parametrize("call", ["start", "line", "end", "close"])
def test_a_logger_that_fails_is_dropped_and_the_others_go_on(
    call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing, sound = Mirror(call), Mirror()
    mirrors = Trackers(lambda: [failing, sound])
    with caplog.at_level(logging.WARNING):
        mirrors.start(RunFolder(tmp_path))
        mirrors.line({"step": 1})
        mirrors.end(Final({}, {}))
        mirrors.close(0)
    calls = ["start", "line", "end", "close"]
    assert sound.calls == calls
    assert failing.calls == [*calls[: calls.index(call) + 1], "abandon"]
    (message,) = caplog.messages
    assert message.startswith(
        "The logger Mirror failed (Connection lost) and receives nothing more. The run's folder has"
    )


@pytest.mark.parametrize("call", ["log_hyperparams", "log_metrics"])
def test_a_logger_of_the_user_that_exits_is_dropped_under_its_own_name(
    call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exits(*_: object, **__: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(CSVLogger, call, exits)
    settings = {"_target_": "pytorch_lightning.loggers.CSVLogger", "save_dir": str(tmp_path / "csv")}
    mirrors = Trackers(lambda: [LightningLogger("mine", settings, TranslationConfig())])
    with caplog.at_level(logging.WARNING):
        mirrors.start(RunFolder(tmp_path))
        mirrors.line({"step": 1, "loss": 2.0})
    (message,) = caplog.messages
    assert message.startswith("The logger mine (CSVLogger) failed (3) and receives nothing more. The run's folder has")


def test_a_logger_that_exits_when_it_is_created_is_a_fault_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def exits(*_: object, **__: object) -> None:
        raise SystemExit("no account")

    monkeypatch.setattr(CSVLogger, "__init__", exits)
    settings = {"_target_": "pytorch_lightning.loggers.CSVLogger", "save_dir": str(tmp_path / "csv")}
    with pytest.raises(UserError, match=r"logger\.further\.mine: .*CSVLogger cannot be created: no account"):
        LightningLogger("mine", settings, TranslationConfig())


@pytest.mark.slow
def test_without_a_login_online_says_how_to_log_in(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "sweep" / "row" / "seed1")
    folder.path.mkdir(parents=True)
    config = TranslationConfig(logger=LoggerConfig(mode="online"))
    with pytest.raises(UserError, match=r"^logger\.mode=online, but W&B answers: .*\. Log in with `wandb login`"):
        WeightsAndBiases(config, folder, "online")
