"""The run store and all that reads it; imports no torch."""
