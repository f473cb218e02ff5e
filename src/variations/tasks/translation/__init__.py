"""Translation: corpora, sub-words, decoding, scores; everything that knows of languages."""
