"""Copy a sweep's finished runs to records/, without checkpoints: `python src/record.py --help`."""

from variations.commands.cli import command
from variations.commands.record import RecordConfig, show

main = command(
    show,
    schema=RecordConfig,
    config_name="record",
    examples=[
        "python src/record.py sweep=toy_weighted_readings                 its finished runs go to records/",
        "python src/record.py sweep=quickstart records=elsewhere/records",
        "python src/table.py sweep=toy_weighted_readings runs=records     a table of records",
    ],
)

if __name__ == "__main__":
    main()
