"""A run resumes only with the inputs that it was started with, and uses the vocabulary that it was trained with."""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from variations.commands import run
from variations.configuration.schema import RunConfig
from variations.store.checksums import file_sha256
from variations.store.ledger import RunFolder, workplace
from variations.system.errors import RunFailedError, UserError
from variations.tasks.translation.data import tokens
from variations.training.step import Step
from variations.training.weights import load_network


@pytest.fixture
def text(corpus: Path, tmp_path: Path) -> Path:
    """A corpus that a test may modify."""
    return Path(shutil.copytree(corpus, tmp_path / "text"))


def replace_word(path: Path) -> None:
    """Edit one line: the same number of lines and about as many words as before, but another vocabulary."""
    lines = path.read_text().splitlines(keepends=True)
    lines[3] = "ananas ananas ananas banana banana\n"
    path.write_text("".join(lines))


def contents(folder: RunFolder) -> dict[str, bytes]:
    """Return everything in a run's folder except its lease, which records the processes that used it."""
    files = (path for path in folder.path.rglob("*") if path.is_file() and not path.name.startswith("lease-"))
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in files}


@pytest.fixture
def stopped(small: Any, text: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunConfig, RunFolder]:
    """A run stopped after its sixth update."""
    config = small(f"data.root={text}", "trainer.val_every=2")
    step = Step.training_step

    def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 6:
            raise KeyboardInterrupt
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(Step, "training_step", training_step)
        with pytest.raises(KeyboardInterrupt):
            run.execute(config)
    folder = RunFolder(Path(config.runs) / "single" / "tiny" / "seed1")
    assert folder.measurements.read()[-1]["step"] == 6
    return config, folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train.en", "valid.de", "test.en"])
def test_a_text_that_was_edited_in_between_is_named_and_nothing_is_written(
    name: str, stopped: tuple[RunConfig, RunFolder], text: Path
) -> None:
    config, folder = stopped
    before = contents(folder)
    replace_word(text / name)
    with pytest.raises(UserError, match=rf"{name} .*changed"):
        run.execute(config)
    assert contents(folder) == before


@pytest.mark.slow
def test_a_run_that_has_lost_its_result_stays_as_it_is_if_its_text_has_changed(
    stopped: tuple[RunConfig, RunFolder], text: Path
) -> None:
    config, folder = stopped
    folder.set_status("finished")  # without a result.json it would be tested again
    before = contents(folder)
    replace_word(text / "test.en")
    with pytest.raises(UserError, match=r"test.en .*changed"):
        run.execute(config)
    assert contents(folder) == before


@pytest.mark.slow
def test_with_an_edited_text_force_starts_a_new_attempt_and_continues_it(
    stopped: tuple[RunConfig, RunFolder], text: Path
) -> None:
    config, folder = stopped
    config.force = True
    assert workplace(folder.path, config) == folder.path
    replace_word(text / "train.en")
    place = workplace(folder.path, config)
    assert place == folder.path.with_name("seed1-attempt2")
    assert RunFolder(run.execute(config)).path == place
    assert RunFolder(place).finished() and not folder.finished()


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["checkpoints/step*.ckpt", "subwords.model", "metrics.jsonl"])
def test_force_starts_a_new_attempt_where_files_of_an_unfinished_run_are_damaged(
    stopped: tuple[RunConfig, RunFolder], damaged: str
) -> None:
    config, folder = stopped
    files = sorted(folder.path.glob(damaged))
    for path in files:
        path.write_bytes(b"damaged\n" + path.read_bytes()[8:])
    with pytest.raises((UserError, RunFailedError), match=r"force=true|delete that line"):
        run.execute(config)
    config.force = True
    assert files and workplace(folder.path, config) == folder.path.with_name("seed1-attempt2")


@pytest.mark.slow
def test_force_starts_a_new_attempt_where_an_unfinished_run_was_found_to_have_checkpoints_of_another(
    stopped: tuple[RunConfig, RunFolder], small: Any, text: Path
) -> None:
    """They are read only once the run has started."""
    config, folder = stopped
    own = shutil.copytree(folder.checkpoints, folder.path.with_name("own"))
    changes = ("trainer.val_every=2", "trainer.max_steps=6", "recipe.beta1=0.5", "name=other")
    other = RunFolder(run.execute(small(f"data.root={text}", *changes)))
    shutil.copytree(other.checkpoints, folder.checkpoints, dirs_exist_ok=True)
    with pytest.raises(UserError, match=r"another run .*force=true"):
        run.execute(config)
    config.force = True
    assert workplace(folder.path, config) == folder.path.with_name("seed1-attempt2")
    shutil.copytree(own, folder.checkpoints, dirs_exist_ok=True)
    config.force = False
    run.execute(config)
    assert folder.finished()
    status = folder.status()
    assert status is not None and "refused" not in status.extra


@pytest.mark.slow
def test_with_the_former_text_it_goes_on(stopped: tuple[RunConfig, RunFolder], text: Path) -> None:
    config, folder = stopped
    former = (text / "train.en").read_bytes()
    replace_word(text / "train.en")
    with pytest.raises(UserError):
        run.execute(config)
    (text / "train.en").write_bytes(former)
    run.execute(config)
    assert folder.finished()


@pytest.mark.slow
def test_a_packed_copy_is_the_same_text(stopped: tuple[RunConfig, RunFolder], text: Path) -> None:
    import gzip

    config, folder = stopped
    (text / "train.en.gz").write_bytes(gzip.compress((text / "train.en").read_bytes()))
    (text / "train.en").unlink()
    run.execute(config)
    assert folder.finished()


@pytest.mark.slow
def test_a_run_from_before_fingerprints_were_kept_is_checked_by_its_data_card(
    stopped: tuple[RunConfig, RunFolder], text: Path
) -> None:
    config, folder = stopped
    (folder.path / "inputs.json").unlink()
    former = (text / "train.de").read_bytes()
    replace_word(text / "train.de")
    with pytest.raises(UserError, match=r"train.de .*changed"):
        run.execute(config)
    (text / "train.de").write_bytes(former)
    run.execute(config)
    assert folder.finished()


@pytest.mark.slow
def test_a_run_that_remembers_nothing_goes_on(stopped: tuple[RunConfig, RunFolder]) -> None:
    config, folder = stopped
    for name in ("inputs.json", "data_card.json"):
        (folder.path / name).unlink()
    run.execute(config)
    assert folder.finished()


@pytest.mark.slow
def test_another_vocabulary_than_the_runs_own_is_refused(stopped: tuple[RunConfig, RunFolder], text: Path) -> None:
    """As after a forgotten edit: the ids of the new text mean other pieces."""
    config, folder = stopped
    for name in ("inputs.json", "environment.json", "data_card.json"):
        (folder.path / name).unlink()
    replace_word(text / "train.en")
    before = (folder.path / "subwords.model").read_bytes()
    with pytest.raises(UserError, match=r"subwords\.model"):
        run.execute(config)
    assert (folder.path / "subwords.model").read_bytes() == before


@pytest.mark.slow
def test_ids_that_other_code_has_prepared_from_the_same_texts_are_named_and_replace_nothing(
    stopped: tuple[RunConfig, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change of the preparation, which leaves texts and vocabulary as they were: it drops a pair."""
    config, folder = stopped
    before, write = contents(folder), tokens._write

    def prepared_otherwise(place: Path, pairs: Any, subwords: Any, longest: int | None) -> dict[str, Any]:
        return write(place, islice(pairs, longest and 202), subwords, longest)

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "_write", prepared_otherwise)
        patch.setattr(tokens, "cache_folder", lambda data: tmp_path / "cache")  # in which nothing is prepared yet
        with pytest.raises(UserError, match="other inputs: the sub-word ids of the training text has changed since"):
            run.execute(config)
    after = contents(folder)
    assert json.loads(after.pop("status.json"))["state"] == "failed"
    del before["status.json"]
    assert after == before
    run.execute(config)
    assert folder.finished()
    assert [line["step"] for line in folder.measurements.read()] == list(range(1, 13))


@pytest.mark.slow
def test_translating_with_a_damaged_or_foreign_vocabulary_is_refused(stopped: tuple[RunConfig, RunFolder]) -> None:
    _, folder = stopped
    load_network(folder.path)
    vocabulary = folder.path / "subwords.model"
    damaged = bytearray(vocabulary.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    vocabulary.write_bytes(bytes(damaged))
    with pytest.raises(UserError, match=r"subwords\.model .* not the file"):
        load_network(folder.path)


@pytest.mark.slow
def test_a_finished_run_says_that_its_text_has_changed(
    stopped: tuple[RunConfig, RunFolder], text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, folder = stopped
    run.execute(config)
    result = folder.result()
    replace_word(text / "test.de")
    run.execute(config)
    assert "warning: test.de" in capsys.readouterr().err
    assert folder.result() == result


@pytest.mark.slow
def test_before_its_first_measurement_a_run_may_begin_with_another_text(
    small: Any, made: Any, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(f"data.root={text}")
    with monkeypatch.context() as patch:
        patch.setattr(Step, "training_step", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run.execute(config)
    replace_word(text / "train.en")
    run.execute(config)
    folder = RunFolder(Path(config.runs) / "single" / "tiny" / "seed1")
    assert folder.finished()
    environment = folder.environment()
    assert environment is not None
    assert file_sha256(folder.path / "subwords.model") == environment["data"]["subwords.model"]
