"""Table 1 of Vaswani et al. 2017, measured: work of one layer as a function of sequence length n and width d."""
