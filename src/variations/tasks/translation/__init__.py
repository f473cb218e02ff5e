"""Translation: corpora, sub-words, scores, and everything else that depends on languages."""
