"""Tables of stored runs: published figures beside measured ones; imports no torch."""
