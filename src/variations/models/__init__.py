"""The networks; they know nothing of data, training or Lightning."""
