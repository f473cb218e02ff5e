"""One file a verb: its schema, its examples, what it does."""
