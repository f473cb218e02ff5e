"""Table 1 of Vaswani et al. 2017, measured: work of one layer against the sequence length n and the width d."""
