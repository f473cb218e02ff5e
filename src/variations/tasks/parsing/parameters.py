"""Parameter files of EVALB (.prm): which labels and words count, and which are equivalent."""

from dataclasses import dataclass
from pathlib import Path

from variations.data.text import read_text
from variations.system.errors import DataError
from variations.tasks.parsing.trees import SHOWN


@dataclass(frozen=True)
class Parameters:
    """The contents of a parameter file (.prm). The defaults are those of the program without one."""

    max_errors: int = 10
    """Most sentences with an error; with more, the two files are taken not to correspond."""
    cutoff: int = 40
    """Most words of a sentence in the second summary."""
    labelled: bool = True
    deleted: frozenset[str] = frozenset()
    """Labels whose brackets do not count; if a tag is among them, its word is deleted, too."""
    deleted_for_length: frozenset[str] = frozenset()
    """Tags of words that do not count towards the length of a sentence."""
    quotes: frozenset[str] = frozenset()
    """Tags that a quotation mark may have."""
    equal_labels: frozenset[frozenset[str]] = frozenset()
    """Pairs of labels that count as the same."""
    equal_words: frozenset[frozenset[str]] = frozenset()


COLLINS = Parameters(
    deleted=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    deleted_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({frozenset({"ADVP", "PRT"})}),
)
"""COLLINS.prm, with which results on the Penn Treebank are reported."""

_LABELS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")
_PAIRS = ("EQ_LABEL", "EQ_WORD")
_KEYWORDS = ("DEBUG", "MAX_ERROR", "CUTOFF_LEN", "LABELED", *_LABELS, *_PAIRS)


def read_parameters(path: Path) -> Parameters:
    """Read a parameter file; DEBUG is accepted without effect. Raises DataError, which names all faults by line."""
    lines = read_text(path.expanduser()).splitlines()
    numbers: dict[str, int] = {}
    labels: dict[str, set[str]] = {key: set() for key in _LABELS}
    pairs: dict[str, set[frozenset[str]]] = {key: set() for key in _PAIRS}
    faults = []
    for count, line in enumerate(lines, 1):
        if line.startswith("#") or len(line.rstrip()) < 3:  # as the program does
            continue
        key, _, value = line.strip().replace("\t", " ").partition(" ")
        value = value.strip()
        if key not in _KEYWORDS:
            faults.append(f"line {count}: unknown keyword {key}")
        elif not value:
            faults.append(f"line {count}: {key} without a value")
        elif key in labels:
            if len(value.split()) != 1:
                faults.append(f"line {count}: {key} takes one name, not {value!r}")
            labels[key].add(value)
        elif key in pairs:
            if len(value.split()) != 2:
                faults.append(f"line {count}: {key} takes two names, not {value!r}")
            pairs[key].add(frozenset(value.split()))
        elif not value.isdecimal():
            faults.append(f"line {count}: {key} takes a whole number, not {value!r}")
        else:
            numbers[key] = int(value)
    if not any((numbers, faults, *labels.values(), *pairs.values())):
        faults.append("it sets nothing")
    if faults:
        more = f"; … and {len(faults) - SHOWN} more faults" if len(faults) > SHOWN else ""
        raise DataError(
            f"{path} is not a parameter file of EVALB: {'; '.join(faults[:SHOWN])}{more}. "
            f"Valid keywords: {', '.join(_KEYWORDS)}."
        )
    return Parameters(
        max_errors=numbers.get("MAX_ERROR", 10),
        cutoff=numbers.get("CUTOFF_LEN", 40),
        labelled=bool(numbers.get("LABELED", 1)),
        deleted=frozenset(labels["DELETE_LABEL"]),
        deleted_for_length=frozenset(labels["DELETE_LABEL_FOR_LENGTH"]),
        quotes=frozenset(labels["QUOTE_LABEL"]),
        equal_labels=frozenset(pairs["EQ_LABEL"]),
        equal_words=frozenset(pairs["EQ_WORD"]),
    )
