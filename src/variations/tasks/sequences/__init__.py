"""What translation and parsing share: pairs of sequences, a network over them, its loss and its batches."""
