"""Save a workspace and a report of a sweep in Weights & Biases: `python src/wandb_report.py --help`."""

from variations.commands.wandb_report import main

if __name__ == "__main__":
    main()
