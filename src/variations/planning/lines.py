"""The plan as lines of plain data: words, counts, and how they compare with the printed ones."""

from dataclasses import asdict, dataclass
from typing import Any

from variations.experiments.rows import differences
from variations.planning.count import Count, count
from variations.planning.rows import PAPERS, Planned

BASE_KEYS = {"N": "N", "d_model": "d_model", "d_ff": "d_ff", "h": "heads", "dropout": "P_drop"}


@dataclass(frozen=True)
class Line:
    """A row of the plan."""

    table: str
    row: str
    id: str | None
    group: str | None
    label: str
    changes: str
    """What it changes in its base row; the main settings of a base row."""
    state: str
    """`to train`, `quoted`, `waits for parsing`, or `tests the checkpoint of ROW`."""
    published: float | None
    """Parameters in millions, as printed."""
    steps: int | None = None
    full_size: bool = True
    """Whether widths are the paper's own, so that sizes may be compared."""
    count: Count | None = None

    def reproduced(self, *, t2t: bool) -> bool | None:
        """Whether our count rounds to the printed one; None where there is nothing to compare."""
        ours = self.count and (self.count.parameters_t2t if t2t else self.count.parameters)
        if not ours or self.published is None or not self.full_size:
            return None
        return round(ours / 1e6) == self.published


def line(planned: Planned, vocabulary: int | None) -> Line:
    """Count a row and put its changes in words."""
    definition, config = planned.definition, planned.config
    printed = definition.published.get("params_millions")
    words = (planned.table, definition.row, definition.id, definition.group, definition.label)
    if config is None:
        return Line(*words, changes="", state="quoted", published=printed)
    state = "to train"
    if config.variation.task != "translation":
        state = f"waits for {config.variation.task}"
    elif config.variation.reuse:
        state = f"tests the checkpoint of {config.variation.reuse}"
    return Line(
        *words,
        changes=_changes(planned),
        state=state,
        published=printed,
        steps=config.trainer.max_steps,
        full_size=config.recipe.scale.width == 1,
        count=count(config, vocabulary),
    )


def _changes(planned: Planned) -> str:
    config = planned.config
    if config is None:
        return ""
    if planned.base is not None:
        return differences(asdict(planned.base), asdict(config))
    settings = [f"{word} {getattr(config.model, key):g}" for key, word in BASE_KEYS.items()]
    return ", ".join([*settings, f"ε_ls {config.recipe.label_smoothing:g}"])


def titles(lines: list[Line]) -> list[tuple[str, list[Line]]]:
    """Group lines by table, each with its title, in order."""
    tables: dict[str, list[Line]] = {}
    for item in lines:
        tables.setdefault(item.table, []).append(item)
    return [(f"{PAPERS[t]} ({t})" if t in PAPERS else t or "one run", found) for t, found in tables.items()]


def record(item: Line) -> dict[str, Any]:
    """Return a line as plain data; numbers are not rounded."""
    values = {key: value for key, value in asdict(item).items() if key not in ("count", "full_size", "published")}
    sizes = asdict(item.count) if item.count else {}
    names = ("vocabulary", "parameters", "parameters_t2t", "branch_weights", "flops")
    values |= {name: sizes.get(name) for name in names}
    values["published_params_millions"] = item.published
    return values | {"reproduced": item.reproduced(t2t=False), "reproduced_t2t": item.reproduced(t2t=True)}


def remarks(lines: list[Line]) -> list[str]:
    """Conventions, and how many printed counts come out."""
    found = []
    if any(item.count and item.count.parameters_t2t for item in lines):
        found.append(
            "Parameters: biases in attention and FFN, one matrix for both embeddings and the output, no output bias. "
            "The second count has the 40,960 embedding rows and 32 task vectors of the code behind Vaswani et al."
        )
    for title, part in titles(lines):
        compared = [item for item in part if item.reproduced(t2t=True) is not None]
        if compared:
            plain = sum(item.reproduced(t2t=False) or False for item in compared)
            padded = sum(item.reproduced(t2t=True) or False for item in compared)
            found.append(
                f"{title}: {padded} of {len(compared)} printed counts are the second count rounded, {plain} the first."
            )
    if any(item.count for item in lines):
        found.append(
            "FLOPs: of the whole training, 3 × 2 × multiply-accumulates of matrix products, for batches without "
            "padding and sentences of 30 sub-words. The papers' own figures are hours times sustained speed."
        )
    return found
