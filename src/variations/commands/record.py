"""The verb `record`: a sweep's finished runs, compactly, for publication."""

from dataclasses import dataclass
from pathlib import Path

from variations.commands.cli import command
from variations.commands.stored import SweepKeys
from variations.system.errors import UserError
from variations.tables.records import LARGEST, Recorded, record


@dataclass
class RecordConfig(SweepKeys):
    """Keys of `src/record.py`."""

    records: str = "records"
    """Folder of records; tables, figures and the dashboard read it with runs=records."""
    texts: bool = False
    """true: also the source and reference sentences of a corpus that is yours to publish."""
    replace: bool = False
    """true: also replace records of another configuration or of other texts; a quick check (debug=…) never replaces an
    ordinary one."""


def show(config: RecordConfig) -> None:
    """Copy a sweep's finished runs to the records, without checkpoints, and say what is new.

    Raises:
        UserError: No sweep is named, none of its runs is finished, or a run cannot be read. After all others were
            recorded: a run would replace the record of another configuration.
    """
    sweep, store, records = config.definition(), config.store, Path(config.records).expanduser()
    if store.resolve() == records.resolve():
        raise UserError(f"runs and records are the same folder, {store}: give records=FOLDER.")
    done = record(sweep, store, records, texts=config.texts, replace=config.replace)
    if not (done.written or done.replaced or done.unchanged or done.refused or done.broken):
        raise UserError(f"No run of {sweep.name} in {store} is finished: there is nothing to record.")
    new = done.written | done.replaced
    for name, size in new.items():
        large = ", more than a record should have" if size > LARGEST else ""
        print(f"{records / name}: {size / 1000:.0f} kB{large}{', replaced' if name in done.replaced else ''}")
    if done.without_texts:
        print(
            "Left out: source and reference sentences, of which hashes and the counts behind the scores are kept. If "
            "the corpus is yours to publish, texts=true records them."
        )
    print(
        f"{len(done.written)} recorded, {len(done.replaced)} replaced, {len(done.unchanged)} unchanged, "
        f"{len(done.missing)} not finished{f', {len(done.broken)} damaged' if done.broken else ''}"
    )
    if faults := [*_damaged(done), *_refused(done, records)]:
        raise UserError("\n".join(faults))


def _damaged(done: Recorded) -> list[str]:
    if not done.broken:
        return []
    what = "run is damaged, so it is" if len(done.broken) == 1 else "runs are damaged, so they are"
    lines = [f"  - {path}: {fault}" for path, fault in done.broken.items()]
    return ["\n".join([f"{len(done.broken)} {what} not recorded:", *lines])]


def _refused(done: Recorded, records: Path) -> list[str]:
    if not done.refused:
        return []
    many = len(done.refused) > 1
    what = "runs are not recorded, because they" if many else "run is not recorded, because it"
    lines = [f"  - {records / name}: {why}" for name, why in done.refused.items()]
    advice = (
        "Record them elsewhere (records=FOLDER). replace=true replaces records, but no runs, and no ordinary records "
        "by quick checks."
    )
    head = f"{len(done.refused)} {what} must not replace what is there:"
    return ["\n".join([head, *lines, advice])]


main = command(
    show,
    schema=RecordConfig,
    config_name="record",
    examples={
        "sweep=toy_weighted_readings": "its finished runs go to records/",
        "sweep=quickstart records=elsewhere": "",
        "sweep=quickstart 'rows=[transformer]' 'seeds=[1]'": "only these",
        "sweep.name=single": "single runs",
    },
)
