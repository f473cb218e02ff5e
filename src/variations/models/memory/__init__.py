"""Networks that read a memory of sentences to answer a question (MemNN, MemN2N, DMN) and their baselines."""
