"""CTranslate2 in float32 with the weights of our own contestant, exported as `translate.py` exports them."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from decode_contestant import ALPHA, BEAM, LENGTH, main
from workloads import PAD, VOCABULARY, WORKLOADS

from variations import models
from variations.configuration.transformer import ModelConfig
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.exporting import export


def make() -> Callable[[np.ndarray], list[int]]:
    """W2's model."""
    torch.manual_seed(1)
    w = WORKLOADS["W2"]
    shape = ModelConfig(N=w.N, d_model=w.d_model, d_ff=w.d_ff, h=w.h, dropout=0.1)
    with tempfile.TemporaryDirectory() as folder:
        export(models.build(TranslationConfig(model=shape), VOCABULARY).eval(), Path(folder))
        engine = ctranslate2.Translator(
            folder, device="cpu", intra_threads=torch.get_num_threads(), compute_type="float32"
        )

    def translate(source: np.ndarray) -> list[int]:
        found = engine.translate_batch(
            [[str(token) for token in row if token != PAD] for row in source],
            beam_size=BEAM,
            length_penalty=ALPHA,
            min_decoding_length=LENGTH,
            max_decoding_length=LENGTH,
        )
        return [len(result.hypotheses[0]) for result in found]

    return translate


if __name__ == "__main__":
    main(make)
