"""What every part stands on: errors and exit codes, standard streams, processes and their signals."""
