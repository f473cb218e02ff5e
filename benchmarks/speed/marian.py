"""Hugging Face's Marian model at a workload's size."""

from transformers import MarianConfig, MarianMTModel
from workloads import BOS, EOS, PAD, VOCABULARY, Workload


def model(w: Workload, vocabulary: int = VOCABULARY, dropout: float = 0.1) -> MarianMTModel:
    """Random weights, embeddings and output shared."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=w.d_model,
            encoder_layers=w.N,
            decoder_layers=w.N,
            encoder_ffn_dim=w.d_ff,
            decoder_ffn_dim=w.d_ff,
            encoder_attention_heads=w.h,
            decoder_attention_heads=w.h,
            activation_function="relu",
            dropout=dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            max_position_embeddings=512,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            bos_token_id=BOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            use_cache=False,
        )
    )
