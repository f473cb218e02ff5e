"""Run records: compact copies of finished runs in a folder that can be published and read like any run store.

    records/<sweep>/<row>/seed<k>/
        config.yaml status.json result.json metrics.jsonl.gz environment.json    as the run left them, see below
        baselines.json                        BLEU of what needs no training, on each translated set
        hypotheses/<set>.hyp.gz .src.gz .ref.gz

Other files in its folder, such as notes, are its user's, and stay when it is replaced.

A record has no checkpoints, logs, leases or attention maps. Paths and the name of the machine, and what looks like a
secret, are removed. Sentences of corpora that we may not publish are left out: for their sets, a record contains the
hypotheses, the hash of the references (`<set>.ref.sha256`), and the counts for each sentence from which every form of
BLEU is computed (`<set>.<score>.counts.npy.gz`). Tables and tests need no more.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path
from typing import Any

from variations.configuration.tasks import task_of
from variations.store.atomic import (
    as_typed,
    json_text,
    make_folder,
    read_json,
    read_object,
    read_stored,
    stored_path,
    told_if_unwritable,
    unpacked,
    write_json,
    write_yaml,
)
from variations.store.contents import sealed
from variations.store.departures import of_run
from variations.store.differences import alike
from variations.store.hidden import without_secrets
from variations.store.identity import changed_keys, identifying
from variations.store.inputs import recorded
from variations.store.ledger import RunFolder, latest, run_home
from variations.store.rows import SweepDefinition
from variations.system.errors import DataError, UserError
from variations.tables.collect import misfit
from variations.tasks.base import TestedRun
from variations.tasks.intact import damage
from variations.tasks.sequences.stored import packed

OF_RUNS = ("checkpoints", "metrics.jsonl", "inputs.json", "subwords.model", "log.txt", "lease-*.json")
"""What a run's folder has and a record has not."""
OWN = re.compile(
    r"config\.yaml|(status|result|environment|baselines)\.json|metrics\.jsonl\.gz|"
    r"hypotheses/[^/.]+\.(((hyp|src|ref)\.gz)|ref\.sha256|npz|(\w+\.)?counts\.npy\.gz)"
)
"""Paths of files that any record may have written; others than these and its present ones are its user's, and stay."""
LARGEST = 200_000
"""Bytes that a record should not exceed."""
DOCUMENTS = 20_000
"""Bytes left for the files that describe the run: its configuration, status, result and environment."""
FIGURES = (9, 5, 3)
"""Significant figures of weights: the first number with which measurements fit into MEASURED. Nine are all that single
precision has."""
MEASURED = 120_000
"""Largest size of a record's compressed measurements in bytes, if fewer figures can achieve it; less where the other
files leave less of LARGEST."""
_PLACE = re.compile(r"(?<![^\s'\"=,:;(\[{<>|`])~?/(?!/)(?:[^\s/'\",:=]+/)+([^\s/'\",:=]*)")
_UNTOLD = ("host", "remote", "pid", "process")
"""Keys left out: names of machines and processes."""


@dataclass
class Recorded:
    """The result of `record`."""

    written: dict[str, int] = field(default_factory=dict)
    """Bytes of each new record, by its path in the folder of records."""
    replaced: dict[str, int] = field(default_factory=dict)
    """The same of each record that took the place of another."""
    refused: dict[str, str] = field(default_factory=dict)
    """Records that were left as they are, and why the run must not replace them."""
    without_texts: list[str] = field(default_factory=list)
    """New or replaced records that lack sentences which their runs have."""
    unchanged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Runs of the sweep that are not finished."""
    broken: dict[str, str] = field(default_factory=dict)
    """Runs whose results are damaged, and how; records of them are left as they are."""


def record(
    sweep: SweepDefinition, store: Path, records: Path, *, texts: bool = False, replace: bool = False
) -> Recorded:
    """Copy every finished run of a sweep to `records`, its newest attempt as seed<k>. Records are replaced as a whole.

    Args:
        sweep: Rows and seeds.
        store: The run store.
        records: The folder of records.
        texts: Copy the sources and references of any corpus, not only of those that may be published. A record that
            has them keeps them.
        replace: Also replace records of another configuration. A quick check (`debug`) never replaces an ordinary one.

    Raises:
        UserError: A run cannot be read, or the records cannot be written, or another process writes the same ones.
        DataError: A run's texts cannot be read or do not fit together.
    """
    found = Recorded()
    with _alone(records / sweep.name):
        indistinct = _indistinct(sweep, store)
        for row in (row for row in sweep.rows if not row.quoted):
            for seed in sweep.seeds:
                folder = latest(run_home(store, sweep=sweep.name, row=row.row, seed=seed))
                home = run_home(records, sweep=sweep.name, row=row.row, seed=seed)
                name = home.relative_to(records).as_posix()
                with _writing(home):
                    _restore(home)
                if folder is None:
                    found.missing += [name] if seed not in sweep.unasked else []
                    continue
                if published(row.row) != row.row:
                    found.refused[name] = "the row's name contains what looks like a secret or a path"
                    continue
                if row.row in indistinct:
                    found.refused[name] = f"without paths and secrets it would be equal to {indistinct[row.row]}"
                    continue
                try:
                    if not folder.finished():
                        found.missing.append(name)
                        continue
                    run = TestedRun(folder, folder.config(), folder.result() or {})
                    fault = misfit(folder, run.config, run.result) or damage(run)
                    files = {} if fault else _files(run, texts=None if texts else _with_texts(home, run))
                except OSError as error:
                    fault = f"{error.filename or folder.path} cannot be read: {error.strerror or error}"
                except (UserError, DataError) as error:
                    fault = str(error).rstrip(".")
                if fault:
                    found.broken[str(folder.path)] = fault
                    continue
                if refusal := _refusal(home, run, replace=replace):
                    found.refused[name] = refusal
                    continue
                written = found.replaced if home.exists() else found.written
                with _writing(home):
                    changed = _replace(home, files)
                if changed:
                    found.without_texts += [name] if _texts(run.folder) - files.keys() else []
                    written[name] = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
                else:
                    found.unchanged.append(name)
    return found


def _refusal(home: Path, run: TestedRun, *, replace: bool) -> str | None:
    """Why a run must not replace the record in `home`; None if it may, or if there is none."""
    if not home.exists():
        return None
    if any(found := list(home.glob(name)) for name in OF_RUNS):
        return f"it is a run, not a record: it has {found[0].name}"
    config, there = run.config, RunFolder(home)
    damaged: str | None = None
    try:
        former, result = there.config(), there.result() or {}
    except UserError as error:
        former, result, damaged = {}, {}, str(error).rstrip(".")
    trial = (config.get("debug") or {}).get("name")
    if trial is not None and (former.get("debug") or {}).get("name") is None:
        return f"debug={trial} is a quick check, which never replaces an ordinary one"
    if replace or damaged:
        return None if replace else f"it cannot be read ({damaged})"
    changes = changed_keys(published(former), published(config))  # removed paths do not count
    before, now = recorded(there), recorded(run.folder)
    texts = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    words = [f"{key} {as_typed(old)} → {as_typed(new)}" for key, (old, new) in changes.items()]
    if not words and _started(there) != _started(run.folder) and (unseen := _unseen(config)):
        words = [
            f"it is of another training, whose {' and '.join(unseen)} may differ (records have no paths and secrets)"
        ]
    flaws = [text for text in of_run(config, run.result) if text not in of_run(former, result)]
    return ", ".join([*words, *(f"{name} has other contents" for name in texts), *flaws]) or None


def _indistinct(sweep: SweepDefinition, store: Path) -> dict[str, str]:
    """Rows that differ from another one only in what records leave out, and the name of that one."""
    configs: dict[str, Mapping[str, Any]] = {}
    for row in sweep.rows:
        folders = (latest(run_home(store, sweep=sweep.name, row=row.row, seed=seed)) for seed in sweep.seeds)
        for folder in folders:
            with suppress(UserError):  # told where it is recorded
                if folder is not None and folder.finished():
                    configs[row.row] = folder.config()
                    break
    groups = {name: at for at, names in enumerate(alike(configs)) for name in names}
    return {
        name: first
        for first, *others in alike({name: published(config) for name, config in configs.items()})
        for name in others
        if groups[name] != groups[first]
    }


def _started(folder: RunFolder) -> str | None:
    return (read_object(folder.path / "status.json") or {}).get("started")


def _unseen(config: Mapping[str, Any]) -> list[str]:
    """Keys that identify a run and whose values a record does not have; texts are known by their fingerprints."""
    found, stored = identifying(config), identifying(published(config))
    return [key for key, value in found.items() if key != "data.root" and stored.get(key) != value]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder of a sweep's records: what other processes have left half-written may then be removed."""
    with _writing(folder):
        make_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        with _writing(folder):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(f"Another process is writing to {folder}: wait for its end.") from error
        yield
    finally:
        os.close(descriptor)
        with suppress(OSError):  # it has records
            folder.rmdir()


def _writing(place: Path) -> AbstractContextManager[None]:
    return told_if_unwritable(place, "; choose another folder with records=DIR.")


def _restore(home: Path) -> None:
    """Undo a replacement that a kill interrupted: put the former record back if the new one is not in its place."""
    for former in home.parent.glob(f".{home.name}-*.old"):
        if home.exists():
            shutil.rmtree(former)
        else:
            former.rename(home)
    for unfinished in home.parent.glob(f".{home.name}-*.tmp"):
        shutil.rmtree(unfinished)


def published(value: Any, key: str = "") -> Any:
    """Plain data, of that key, without secrets and host names; absolute paths are reduced to their last part."""
    return _without_places(without_secrets(value, key))


def _without_places(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_places(item) for key, item in value.items() if key not in _UNTOLD}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    return _PLACE.sub(r"\1", value) if isinstance(value, str) else value


def _files(run: TestedRun, *, texts: Collection[str] | None) -> dict[str, bytes | Any]:
    """Contents of a record by name: bytes, or plain data.

    A record that was copied into a run store stays as it is, except for sentences that may not be published; of one
    that a sweep has copied, the documents are new.

    Args:
        run: The run.
        texts: Sets whose sources and references are part of the record also if they may not be published; None: all.
    """
    folder = run.folder
    if (folder.path / "metrics.jsonl.gz").is_file():
        found = (
            path for path in folder.path.rglob("*") if path.is_file() and not path.name.startswith((".", "lease-"))
        )
        kept = (path for path in found if _wanted(path, texts) or not _may_not_be_published(path))
        copied = {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in kept}
        by_sweep = any(folder.path.glob("lease-*.json"))
        return copied | (_documents(run, unpacked(folder.path / "metrics.jsonl.gz")) if by_sweep else {})
    files: dict[str, Any] = {path.name: path.read_bytes() for path in sorted(folder.path.glob("*.py"))}  # own classes
    files |= task_of(run.config).record(run)
    for path in sorted(folder.hypotheses.glob("*.*")):
        if path.suffix in (".ref", ".src") and _wanted(path, texts):
            files[f"hypotheses/{path.name}.gz"] = packed(path.read_bytes())
    others = sum(len(content) for content in files.values() if isinstance(content, bytes))
    metrics = measured(folder.measurements.read(), min(MEASURED, LARGEST - DOCUMENTS - others))
    return files | _documents(run, metrics) | {"metrics.jsonl.gz": packed(metrics)}


def measured(lines: Sequence[Mapping[str, Any]], largest: int) -> bytes:
    """Lines of measurements whose compressed size is at most `largest` bytes, if coarser weights can achieve it.

    Weights, such as κ and α, get fewer significant figures first; then they are left out of all but every second,
    fourth … line, counted from the last one. Other measurements are never changed.
    """
    coarser = [2**k for k in range(1, len(lines).bit_length() + 1)]
    for figures, every in [*((figures, 1) for figures in FIGURES), *((FIGURES[-1], every) for every in coarser)]:
        kept = [
            _short(line, figures) if back % every == 0 else _without_weights(line)
            for back, line in zip(reversed(range(len(lines))), lines, strict=True)
        ]
        metrics = "".join(f"{json_text(line, indent=None)}\n" for line in kept).encode()
        if len(packed(metrics)) <= largest:
            break
    return metrics


def _documents(run: TestedRun, metrics: bytes) -> dict[str, Any]:
    """The files of a record that describe the run, without what may not be published."""
    return {
        "config.yaml": published(run.config),
        "status.json": published(read_json(run.folder.path / "status.json")),
        "result.json": sealed(published(run.result), published(run.config), metrics or None),
        "environment.json": published(run.folder.environment() or {}),
    }


def _wanted(path: Path, texts: Collection[str] | None) -> bool:
    return texts is None or path.name.partition(".")[0] in texts


def _with_texts(home: Path, run: TestedRun) -> list[str]:
    """The sets of which `texts=true` has put otherwise unpublished texts into a record, if the run has the same."""
    ours, theirs = run.folder.hypotheses, RunFolder(home).hypotheses
    hashed = {path.name.partition(".")[0] for path in home.glob("hypotheses/*.ref.sha256")}
    kept = [name for name in hashed if (theirs / f"{name}.ref.gz").is_file()]
    files = {name: [f"{name}.{side}" for side in ("src", "ref")] for name in kept}
    return [name for name in kept if all(_text(ours / file) == _text(theirs / file) for file in files[name])]


def _text(path: Path) -> bytes | None:
    return None if stored_path(path) is None else read_stored(path)


def _texts(folder: RunFolder) -> set[str]:
    """The sources and references that a run has stored, by their names in a record."""
    return {f"hypotheses/{path.name}.gz" for path in folder.hypotheses.glob("*.*") if path.suffix in (".ref", ".src")}


def _may_not_be_published(path: Path) -> bool:
    """Whether a record's file has sentences of a corpus of which records have the hash of the references instead."""
    name, _, kind = path.name.partition(".")
    return kind in ("src.gz", "ref.gz") and path.with_name(f"{name}.ref.sha256").is_file()


def _short(line: Mapping[str, Any], figures: int) -> dict[str, Any]:
    """A line of metrics with the weights in its lists, such as κ and α, to that many significant figures."""
    return {
        key: [float(f"{x:.{figures}g}") if isinstance(x, float) else x for x in value]
        if isinstance(value, list)
        else value
        for key, value in line.items()
    }


def _without_weights(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if not isinstance(value, list)}


def _replace(home: Path, files: Mapping[str, Any]) -> bool:
    """Write a complete record beside its place, then exchange it for the old one; False if they are equal."""
    fresh = home.with_name(f".{home.name}-{secrets.token_hex(4)}.tmp")
    try:
        for name, content in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif name.endswith(".yaml"):
                write_yaml(path, content)
            else:
                write_json(path, content)
        own, kept = _own(home, files)
        if home.is_dir() and own == files.keys() and all(cmp(fresh / name, home / name, shallow=False) for name in own):
            return False
        for name in kept:
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(home / name, fresh / name, follow_symlinks=False)
        former = fresh.with_suffix(".old")
        if home.exists():
            home.rename(former)
        fresh.rename(home)
        shutil.rmtree(former, ignore_errors=True)
        return True
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _own(home: Path, files: Collection[str]) -> tuple[set[str], set[str]]:
    """The files in the folder of a record that belong to it, and those that its user has put there."""
    paths = (path for path in home.rglob("*") if path.is_file() or path.is_symlink())
    found = {path.relative_to(home).as_posix(): path.name for path in paths}
    own = {name for name, last in found.items() if name in files or (last[0] != "." and OWN.fullmatch(name))}
    return own, found.keys() - own
