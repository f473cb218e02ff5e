"""The local dashboard: a run store as JSON, the server that gives it out, and the export as one file."""
