"""What every part builds on: errors and exit codes, standard streams, processes and their signals."""
