"""Memory networks for question answering (MemNN, MemN2N, DMN) and their baselines."""
