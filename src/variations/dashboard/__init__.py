"""The local dashboard: a run store as JSON, the server that serves it, and the export as one file."""
