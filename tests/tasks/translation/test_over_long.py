"""A run's test, its loss and translate.py read and report a source beyond the limit in the same way."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from variations.configuration.transformer import SequenceRecipe, SequenceTrainer
from variations.store.ledger import RunFolder
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.sequences.decoding import translator as rule
from variations.tasks.translation.config import DataConfig, TranslationConfig
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.experiment import TranslationExperiment
from variations.tasks.translation.scoring.report import stored_cuts
from variations.tasks.translation.translate import InputLine, TranslateConfig, remarks, translator_of

LIMIT = 12
LINES = ["w1 w2 w3", " ".join(f"w{i}" for i in range(1, 30)), "", "w4\x07w5 w6"]


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TranslationExperiment:
    """An untrained network with one over-long line in its test set."""
    monkeypatch.setattr(rule, "LONGEST_SOURCE", LIMIT)
    short = [f"w{i} w{(7 * i) % 40} w{(3 * i) % 40}" for i in range(40)]
    for name, lines in {"train": short, "valid": short[:3], "test": LINES}.items():
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    config = TranslationConfig(
        data=DataConfig(
            kind="folder", root=str(tmp_path), cache=str(tmp_path / "cache"), vocabulary=32, max_length=LIMIT
        ),
        recipe=SequenceRecipe(batch_tokens=200),
        trainer=SequenceTrainer(progress=False),
        decode=DecodeConfig(beam=2, max_extra=4),
    )
    model: Any = config.model
    model.N, model.d_model, model.d_ff, model.h = 1, 16, 32, 2
    data = TranslationData(config)
    data.setup()
    torch.manual_seed(1)
    made = TranslationExperiment(config, data)
    made.network.eval()
    return made


@pytest.fixture
def place() -> Any:
    return SimpleNamespace(device=torch.device("cpu"), rank=0, world=1, precision=nullcontext, sum=list)


@pytest.mark.slow
def test_test_loss_and_translate_read_the_same(experiment: TranslationExperiment, place: Any, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    experiment._translate_and_score(folder, place, "test")
    text = experiment.data.encoded("test")
    asked = translator_of(
        TranslateConfig(accelerator="cpu"), experiment.network, experiment.data.subwords, experiment.config
    )
    with torch.inference_mode():
        found = asked.translate(text.sources, progress=False)
        ours = experiment.translator(nbest=1).translate(text.sources, ids=text.ids, progress=False)
    assert ours == found  # texts and log-probabilities, including the line with a control character
    assert (folder.hypotheses / "test.hyp").read_text(encoding="utf-8").split("\n")[:-1] == [
        item.outputs[0].text for item in found
    ]
    long = found[1]
    assert long.source_length > long.translated_length == LIMIT
    said = f"too long: of {long.source_length} sub-words only the first {LIMIT} were read (end of sentence counted)."
    assert said in list(remarks(InputLine(2, LINES[1]), long))
    with torch.inference_mode():
        (strange,) = asked.translate(["w1 żw2"], progress=False)
    assert "1 sub-word stands for characters that never occurred in training." in list(
        remarks(InputLine(1, "w1 żw2"), strange)
    )
    assert experiment.cut == {"test": [f"line 2: {said}"]}

    (batch,) = experiment.data.decoding_batches(text.pairs)
    row = batch.source[batch.index.tolist().index(1)].tolist()
    assert row == [*text.ids[1][: LIMIT - 1], rule.EOS]


def test_score_repeats_what_the_test_said(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"cut": {"test": ["line 2: too long"]}}')
    assert stored_cuts(tmp_path, "test") == ["line 2: too long"]
    assert stored_cuts(tmp_path, "dev") == []
