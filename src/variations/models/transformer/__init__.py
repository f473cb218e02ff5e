"""The Transformer (Vaswani et al. 2017) and the Weighted Transformer (Ahmed et al. 2017), in the papers' symbols.

In reading order: `attention` and `positions`, `feed_forward`, `layers`, `transformer`; then `branch_weights`,
`branched`, `weighted`. Symbols: N layers, h heads of width d_k (queries, keys) and d_v (values), d = d_model, f = d_ff,
M branches with weights κ and α; B sentences, S source and T target positions, n = B·T tokens, V rows of the vocabulary.
"""
