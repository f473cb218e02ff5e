"""The shipped models learn: after a few hundred steps on the built-in corpus they clearly beat model-free baselines.

`make test` has shorter ones in its place: contract/test_training.py, and test_golden_path.py for the commands.
"""

import json
from pathlib import Path

import pytest
from sacrebleu import corpus_bleu

from variations.commands.run import execute
from variations.configuration.compose import compose_run
from variations.tasks.translation.data import corpora
from variations.tasks.translation.trained import copy_baseline, dictionary_baseline


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", ["transformer", "weighted"])
def test_a_briefly_trained_model_beats_copying_and_a_dictionary(model: str, tmp_path: Path) -> None:
    steps = {"transformer": 450, "weighted": 700}[model]  # branch outputs start near zero, so they learn later
    config = compose_run(
        [
            f"model={model}",
            "logger=none",
            f"runs={tmp_path}",
            f"trainer.max_steps={steps}",
            f"trainer.val_every={steps}",
            "trainer.val_bleu=0",
            "decode.beam=1",
        ]
    )
    result = json.loads((execute(config) / "result.json").read_text())
    sources, references = corpora.load(config.data, progress=False).test.read()
    trained = result["scores"]["test"]["bleu"]["value"]
    copied = corpus_bleu(copy_baseline(sources), [references]).score
    looked_up = corpus_bleu(dictionary_baseline(sources), [references]).score
    assert copied < 5
    assert looked_up < 30
    assert trained > looked_up + 20
    assert result["dropped_pairs"] == 0
    assert result["steps"] == steps
