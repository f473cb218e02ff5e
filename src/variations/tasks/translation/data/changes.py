"""Whether the files that a run was trained and tested on are still what they were."""

import json
from collections.abc import Iterator
from pathlib import Path

from variations.data.entry import text_sha256
from variations.store.run_folder import RunFolder
from variations.tasks.translation.config import DataConfig


def changed_texts(folder: RunFolder, data: DataConfig) -> Iterator[str]:
    """A sentence for the files in `data.root` that are no longer those of the run's data card; none without a card.

    A text may be corrected in place, and its run is then still the same by name: only its contents tell.
    """
    if data.root is None:
        return
    try:
        sets = json.loads((folder.path / "data_card.json").read_text(encoding="utf-8"))["sets"]
        files = [side for found in sets.values() for side in found["files"].values()]
        stored = {side["name"]: side["sha256"] for side in files}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    root = Path(data.root).expanduser()
    there = {name: root / name for name in stored if (root / name).is_file()}
    changed = sorted(name for name, path in there.items() if text_sha256(path) != stored[name])
    if changed:
        yield (
            f"{', '.join(changed)} in {data.root} changed after this run: its results are those of the former text. "
            "force=true makes a new attempt with the present one; name=… keeps both apart."
        )
