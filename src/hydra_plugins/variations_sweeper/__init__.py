"""Hydra finds plugins in this folder because it stands beside `train.py`."""
