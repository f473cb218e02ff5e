"""The data module: what Lightning gets, in which order, and that a resumed fit sees exactly the remaining batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.apply_func import move_data_to_device
from pytorch_lightning.callbacks import ModelCheckpoint
from suite import sampled
from torch.utils.data._utils.pin_memory import pin_memory

from variations.configuration.compose import compose_run
from variations.configuration.transformer import SequenceRecipe, SequenceTrainer
from variations.data.batching import Batch
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.translation.config import DataConfig, TranslationConfig
from variations.tasks.translation.data import module
from variations.tasks.translation.data.module import TranslationData

TRAIN, DEV, TEST = 240, 30, 25


@dataclass(frozen=True)
class Pair:
    name: str
    source: Path
    target: Path


@dataclass(frozen=True)
class Corpus:
    train: Pair
    dev: Pair
    test: Pair
    others: dict[str, Pair] = field(default_factory=dict)
    surveys: Mapping[str, Any] = field(default_factory=lambda: {"train": SimpleNamespace(pairs=TRAIN)})

    def sets(self) -> dict[str, Pair]:
        return {"train": self.train, "dev": self.dev, "test": self.test, **self.others}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    pairs: dict[str, Any] = {}
    for name, lines in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        pairs[name] = Pair(name, tmp_path / f"{name}.en", tmp_path / f"{name}.de")
        words = [[f"w{(7 * line + word) % 50}" for word in range(1 + line % 11)] for line in range(lines)]
        pairs[name].source.write_text("".join(" ".join(row) + "\n" for row in words))
        pairs[name].target.write_text("".join(" ".join(reversed(row)) + " .\n" for row in words))
    made = Corpus(**pairs)
    monkeypatch.setattr(module, "corpora", SimpleNamespace(load=lambda data, progress: made))
    return made


def config(folder: Path, **groups: Any) -> TranslationConfig:
    made = TranslationConfig(
        data=DataConfig(cache=str(folder / "cache"), vocabulary=50),
        recipe=SequenceRecipe(batch_tokens=200),
        trainer=SequenceTrainer(progress=False),
    )
    for name, values in groups.items():
        for key, value in values.items():
            setattr(getattr(made, name), key, value)
    return made


def ready(folder: Path, **groups: Any) -> TranslationData:
    data = TranslationData(config(folder, **groups))
    data.prepare_data()
    data.setup("fit")
    return data


def indices(batches: Any) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


class Recorder(pl.LightningModule):
    """Learns nothing useful; records its inputs and torch's random state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[tuple[int, list[int], float]] = []

    def training_step(self, batch: Batch, _: int) -> torch.Tensor:
        self.seen.append((self.global_step, batch.index.tolist(), float(torch.rand(()))))
        return self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(data: TranslationData, folder: Path, steps: int, checkpoint: Path | None = None) -> Recorder:
    model = Recorder()
    trainer = pl.Trainer(
        max_steps=steps,
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        logger=False,
        callbacks=[ModelCheckpoint(folder, "last", every_n_train_steps=1, enable_version_counter=False)],
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=folder,
        accumulate_grad_batches=data.accumulate,
    )
    trainer.fit(model, datamodule=data, ckpt_path=checkpoint)
    return model


def test_more_training_pairs_than_the_text_has_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    told = f"data.train_pairs={TRAIN + 1}, but the training text has only {TRAIN} pairs: leave the key out"
    with pytest.raises(UserError, match=told):
        TranslationData(config(tmp_path, data={"train_pairs": TRAIN + 1})).setup()


def test_everything_is_there_after_setup(corpus: Any, tmp_path: Path) -> None:
    data = ready(tmp_path)
    assert data.corpus is corpus
    assert data.subwords.size == 50
    assert (len(data.train_tokens), len(data.dev_tokens), len(data.test_tokens)) == (TRAIN, DEV, TEST)


def test_a_training_epoch_holds_each_pair_once_within_the_budget(corpus: Corpus, tmp_path: Path) -> None:
    data = ready(tmp_path)
    batches = list(data.train_dataloader())
    assert len(batches) == len(data.train_dataloader())
    assert sorted(i for batch in indices(batches) for i in batch) == list(range(TRAIN))
    assert max(max(batch.source.numel(), batch.target.numel()) for batch in batches) <= 200
    assert data.subwords.decode(batches[0].source.tolist())[0].split()[0].startswith("w")


@pytest.mark.parametrize(
    ("recipe", "trainer", "accumulate", "per_batch"),
    [
        ({"batch_tokens": 8192}, {}, 1, 8192),
        ({"batch_tokens": 8192}, {"tokens_per_batch": 4096}, 2, 4096),
        ({"batch_tokens": 8192}, {"tokens_per_batch": 4096, "devices": 2}, 1, 4096),
        ({"batch_tokens": 8192}, {"devices": 2}, 1, 4096),
        ({"batch_tokens": 25_000}, {"tokens_per_batch": 4096}, 7, 3571),  # the update keeps its 25,000 tokens
        ({"batch_tokens": 25_000}, {"tokens_per_batch": 4096, "devices": 2, "nodes": 4}, 1, 3125),
        ({"batch_tokens": 1000}, {"tokens_per_batch": 4096}, 1, 1000),
    ],
)
def test_an_update_has_the_recipes_size_whatever_the_hardware(
    tmp_path: Path, recipe: dict[str, int], trainer: dict[str, int], accumulate: int, per_batch: int
) -> None:
    data = TranslationData(config(tmp_path, recipe=recipe, trainer=trainer))
    assert (data.accumulate, data.tokens_per_batch) == (accumulate, per_batch)


def test_dev_batches_hold_each_pair_once_in_the_same_order_each_time(corpus: Corpus, tmp_path: Path) -> None:
    data = ready(tmp_path)
    loader = data.dev_dataloader()
    first = indices(loader)
    assert sorted(i for batch in first for i in batch) == list(range(DEV))
    assert indices(loader) == first


def test_two_ranks_share_dev_and_training_pairs(corpus: Corpus, tmp_path: Path) -> None:
    ranks = [ready(tmp_path) for _ in range(2)]
    for rank, data in enumerate(ranks):
        data.trainer = SimpleNamespace(global_rank=rank, world_size=2)  # type: ignore[assignment]
    for name, pairs in (("train_dataloader", TRAIN), ("dev_dataloader", DEV)):
        yielded = [indices(getattr(data, name)()) for data in ranks]
        assert len(yielded[0]) == len(yielded[1])
        assert sorted(i for batches in yielded for batch in batches for i in batch) == list(range(pairs))


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_two_ranks_validate_on_the_pairs_on_which_one_would(limit: int, corpus: Corpus, tmp_path: Path) -> None:
    data = ready(tmp_path, trainer={"limit_val_batches": limit})
    whole = indices(ready(tmp_path).dev_dataloader())
    assert len(whole) % 2 == 1  # the last batch is split between the two
    expected = sorted(i for batch in whole[:limit] for i in batch)
    assert sorted(i for batch in indices(data.dev_dataloader()) for i in batch) == expected
    found = []
    for rank in range(2):
        data.trainer = SimpleNamespace(global_rank=rank, world_size=2)  # type: ignore[assignment]
        found += [i for batch in indices(data.dev_dataloader()) for i in batch]
    assert sorted(found) == expected


def test_decoding_batches_are_long_first_and_within_the_budget_of_the_beam(corpus: Corpus, tmp_path: Path) -> None:
    data = ready(tmp_path, decode={"batch_tokens": 480, "beam": 4})
    batches = list(data.decoding_batches(data.test_tokens))
    assert sorted(i for batch in indices(batches) for i in batch) == list(range(TEST))
    assert max(4 * batch.source.numel() for batch in batches) <= 480
    widths = [batch.source.shape[1] for batch in batches]
    assert widths == sorted(widths, reverse=True)
    assert sorted(i for b in indices(data.decoding_batches(data.test_tokens, limit=7)) for i in b) == list(range(7))


def test_overfit_batches_trains_and_validates_on_the_same_few_pairs(corpus: Corpus, tmp_path: Path) -> None:
    data = ready(tmp_path, debug={"overfit_batches": 2})
    whole = ready(tmp_path)
    expected = sorted(i for batch in whole.sampler.plan(0)[:2] for i in batch.tolist())
    assert sorted(i for batch in indices(data.train_dataloader()) for i in batch) == expected
    assert sorted(i for batch in indices(data.dev_dataloader()) for i in batch) == expected
    assert len(data.train_dataloader()) == pytest.approx(2, abs=1)


def test_loaders_leave_torchs_random_state_alone(corpus: Corpus, tmp_path: Path) -> None:
    data = ready(tmp_path)
    before = torch.get_rng_state()
    list(data.train_dataloader())
    list(data.dev_dataloader())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "tokens"), sampled([(2, 100), (2, None), (0, 100), (0, None)], 3))
def test_a_fit_stopped_anywhere_continues_with_exactly_the_remaining_batches(
    corpus: Corpus, tmp_path: Path, workers: int, tokens: int | None
) -> None:
    def data() -> TranslationData:
        return ready(tmp_path, data={"workers": workers}, trainer={"tokens_per_batch": tokens})

    per_epoch = -(-len(data().train_dataloader()) // data().accumulate)
    total = 2 * per_epoch + 3
    undisturbed = fit(data(), tmp_path, total).seen
    assert len({str(batch) for _, batch, _ in undisturbed}) > 0.9 * len(undisturbed)  # epochs differ
    by_epoch = [sorted(i for s, batch, _ in undisturbed if s // per_epoch == e for i in batch) for e in (0, 1)]
    assert by_epoch == [list(range(TRAIN))] * 2
    for stop in (1, per_epoch - 1, per_epoch, per_epoch + 2):
        before = fit(data(), tmp_path, stop).seen
        after = fit(data(), tmp_path, total, tmp_path / "last.ckpt").seen
        steps_and_batches = [(step, batch) for step, batch, _ in before + after]
        assert steps_and_batches == [(step, batch) for step, batch, _ in undisturbed], stop


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["gpu", "ddp"])
def test_batches_for_a_gpu_are_made_ahead_by_other_processes(trainer: str) -> None:
    assert compose_run([f"trainer={trainer}"]).data.workers == 2
    assert compose_run([f"trainer={trainer}", "data.workers=0"]).data.workers == 0
    assert compose_run([]).data.workers == 0


@pytest.mark.parametrize(
    ("accelerator", "there", "pinned"), [("gpu", True, True), ("cpu", True, False), ("auto", False, False)]
)
def test_batches_for_a_gpu_lie_in_page_locked_memory(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accelerator: str, there: bool, pinned: bool
) -> None:
    data = ready(tmp_path, trainer={"accelerator": accelerator})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert data.train_dataloader().pin_memory is pinned
    assert data.dev_dataloader().pin_memory is pinned


def test_all_of_a_batch_is_pinned_and_copied_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move a batch as the loader and Lightning do, recording what happens to each tensor."""
    seen: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: (seen.append("pinned"), tensor)[1])
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, place, **how: (seen.append((place, how)), tensor)[1])
    batch = Batch(*(torch.zeros(2, 3, dtype=torch.int64) for _ in range(2)), torch.arange(2), 6, 6, (0, 0, 0))
    gpu = torch.device("cuda")
    assert isinstance(move_data_to_device(pin_memory(batch), gpu), Batch)
    assert seen == ["pinned"] * 3 + [(gpu, {"non_blocking": True})] * 3


def test_a_set_that_the_corpus_lacks_is_refused_before_anything_is_trained(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"decode\.sets names nope, but the corpus has only dev, test"):
        TranslationData(config(tmp_path, decode={"sets": ["test", "nope"]})).setup()
    assert not (tmp_path / "cache").exists()


def test_lower_casing_includes_the_references(tmp_path: Path) -> None:
    """A model of lower-cased text cannot output capitals, so BLEU against cased references would be too low."""
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.en").write_text("A Dog runs.\nThe CAT sleeps.\n" * 8, encoding="utf-8")
        (tmp_path / f"{name}.de").write_text("Ein Hund läuft.\nDie KATZE schläft.\n" * 8, encoding="utf-8")
    words = ["data=files", f"data.root={tmp_path}", f"data.cache={tmp_path / 'cache'}", "data.vocabulary=50"]
    for lowercase, expected in ((False, "Ein Hund läuft."), (True, "ein hund läuft.")):
        data = TranslationData(compose_run([*words, f"data.lowercase={lowercase}"]))
        data.setup()
        assert data.encoded("dev").references[0] == expected
        assert data.encoded("test").sources[1] == ("the cat sleeps." if lowercase else "The CAT sleeps.")


def test_what_is_tested_is_read_when_training_starts(tmp_path: Path) -> None:
    """A test set that is edited while the run trains is tested as it was when its fingerprint was taken."""
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.en").write_text("A dog runs.\nThe cat sleeps.\n" * 8, encoding="utf-8")
        (tmp_path / f"{name}.de").write_text("Ein Hund läuft.\nDie Katze schläft.\n" * 8, encoding="utf-8")
    words = ["data=files", f"data.root={tmp_path}", f"data.cache={tmp_path / 'cache'}", "data.vocabulary=50"]
    early = TranslationData(compose_run(words))
    early.setup()
    before = (tmp_path / "test.de").read_text(encoding="utf-8")
    (tmp_path / "test.de").write_text(before.replace("Hund", "Hahn"), encoding="utf-8")
    with pytest.raises(DataError, match=r"test\.de changed while this run read it"):
        early.keep_facts(RunFolder(tmp_path / "early").create({}))
    (tmp_path / "test.de").write_text(before, encoding="utf-8")
    data = TranslationData(compose_run(words))
    data.setup()
    data.keep_facts(RunFolder(tmp_path / "run").create({}))
    (tmp_path / "test.en").write_text("Something else.\nIs here.\n" * 8, encoding="utf-8")
    (tmp_path / "test.de").write_text("Etwas anderes.\nIst hier.\n" * 8, encoding="utf-8")
    assert data.encoded("test").sources[:2] == ["A dog runs.", "The cat sleeps."]
    assert data.encoded("test").references[0] == "Ein Hund läuft."
