"""Fabricated run stores for the browser tests, quick to write, with everything a view can show."""

import copy
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from variations.store.ledger import RunFolder, run_home
from variations.tasks.translation.config import TranslationConfig

STEPS = 1200
LAYERS = ("encoder.0.self", "encoder.1.self", "decoder.0.cross", "decoder.1.cross")
WORDS = [
    "der",
    "die",
    "das",
    "Hund",
    "Park",
    "Ball",
    "Kind",
    "Haus",
    "läuft",
    "spielt",
    "sieht",
    "im",
    "am",
    "rot",
    "blau",
    "groß",
    "klein",
    "heute",
]
ROWS = {
    "transformer": ("Transformer", None),
    "learned_positions": ("Transformer, learned positions", "transformer"),
    "weighted": ("Weighted Transformer", "transformer"),
    "uniform": ("Weighted, all weights 1/M", "transformer"),
}
"""The rows of sweeps/quickstart.yaml: label, base row."""


def line(step: int, bleu: float, *, branched: bool = False, dead: bool = False) -> dict[str, Any]:
    """Return one line of metrics of a run that will reach `bleu`."""
    part = step / STEPS
    found: dict[str, Any] = {"step": step, "epoch": 0, "seconds": 0.1 * step, "flops": 6e9 * step}
    found |= {"source_tokens": 900 * step, "target_tokens": 950 * step, "padded_tokens": 1900 * step, "lr": 1e-3}
    found |= {"dev/bleu": bleu * (1 - math.exp(-4 * part)), "dev/nll": 0.4 + 5 * math.exp(-8 * part)}
    found["train/loss"] = 1.5 + 6 * math.exp(-4 * part)
    if branched:
        for k, layer in enumerate(LAYERS):
            drift = (1 + k) * 0.05 * part
            kappa = [0.25 + drift, 0.25 + drift / 2, 0.25 - drift / 2, 0.25 - drift]
            if dead and layer == "encoder.1.self" and part == 1:
                kappa = [0.5, 0.3, 0.2, 0.0]
            found |= {f"branch/{layer}.kappa": kappa, f"branch/{layer}.alpha": kappa[::-1]}
        found["branch/dead"] = int(dead and part == 1)
    return found


def attention() -> dict[str, Any]:
    """Return the contents of attention.json: one sentence, one layer of each kind, two heads."""
    source, target = ["the", "dog", "runs", "⟨end⟩"], ["der", "Hund", "läuft", "⟨end⟩"]
    peaked = [[[0.85 if q == k else 0.05 for k in range(4)] for q in range(4)] for _ in range(2)]
    peaked[1] = [row[::-1] for row in peaked[0]]
    axes = {"encoder": ("source", "source"), "decoder": ("target", "before"), "cross": ("target", "source")}
    layers = [
        {"name": f"{kind}.0", "label": f"{kind}, layer 1", "kind": kind, "heads": 2, "queries": q, "keys": k}
        | {"weights": peaked}
        for kind, (q, k) in axes.items()
    ]
    sentence = {"source": "the dog runs", "target": "der Hund läuft", "source_tokens": source, "target_tokens": target}
    return {"schema": 1, "sentences": [sentence | {"before_tokens": ["⟨start⟩", *target[:-1]], "layers": layers}]}


def sentences(count: int, wrong: int, first: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return sources, references, and translations; every `wrong`-th one after `first` has two words changed."""
    references = [" ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(3, 11)) for i in range(count)]
    sources = [f"source sentence {i + 1}" for i in range(count)]
    words = [text.split() for text in references]
    outputs = [
        " ".join([*w[:3], "falsch", "anders", *w[5:]]) if i % wrong == first else " ".join(w)
        for i, w in enumerate(words)
    ]
    return sources, references, outputs


def write(
    store: Path,
    row: str,
    seed: int = 1,
    *,
    sweep: str = "quickstart",
    label: str | None = None,
    base: str | None = "transformer",
    bleu: float = 80.0,
    state: str = "finished",
    reason: str | None = None,
    until: int = STEPS,
    branched: bool = False,
    texts: tuple[list[str], list[str], list[str]] | None = None,
    parameters: int = 1_046_528,
    points: int = 12,
    **changes: Any,
) -> RunFolder:
    """Write one run that has reached step `until`. `changes`: dotted keys of its configuration (`model__h=2`)."""
    config = copy.deepcopy(asdict(TranslationConfig()))
    config["variation"] |= {"table": sweep, "row": row, "label": label or row, "base": base if base != row else None}
    config["trainer"]["max_steps"] = STEPS
    config["seed"] = seed
    for name, value in changes.items():
        *path, last = name.split("__")
        node = config
        for part in path:
            node = node[part]
        node[last] = value
    folder = RunFolder(run_home(store, sweep=sweep, row=row, seed=seed)).create(config)
    steps = range(STEPS // points, until + 1, STEPS // points)
    text = "".join(json.dumps(line(step, bleu, branched=branched, dead=branched)) + "\n" for step in steps)
    folder.measurements.path.write_text(text)
    if state == "finished":
        scores = {"bleu": {"value": bleu, "convention": "sacreBLEU", "signature": "nrefs:1|tok:13a"}}
        scores["bleu_lc"] = {"value": bleu + 0.04, "convention": "sacreBLEU, lower-cased"}
        scores["exact_match"] = {"value": bleu / 2, "convention": "percent of lines"}
        result = {"schema": 1, "scores": {"test": scores}, "loss": {"dev_nll": 0.5, "dev_ppl": 1.65}}
        result |= {
            "parameters": parameters,
            "steps": STEPS,
            "flops": 7.2e12 - 1e10 * (88 - bleu),
            "seconds": 120.0 + seed,
        }
        result |= {"source_tokens": 1_000_000, "target_tokens": 1_100_000, "padded_tokens": 50_000, "dropped_pairs": 0}
        result["hardware"] = {"accelerator": "cpu", "device": "CPU", "devices": 1, "threads": 2}
        folder.write_environment({})
        folder.write_result(result)
    for kind, lines in zip(("src", "ref", "hyp"), texts or (), strict=False):
        (folder.hypotheses / f"test.{kind}").write_text("".join(f"{item}\n" for item in lines), encoding="utf-8")
    folder.set_status(state, reason, step=until)
    return folder


def texts_of(row: str, seed: int) -> tuple[list[str], list[str], list[str]]:
    """Return the texts of a run of `quickstart`: later rows have more errors."""
    wrong = 9 - 2 * list(ROWS).index(row)
    return sentences(30, wrong, first=2 * seed % wrong)


def score(row: str, seed: int) -> float:
    """Return the BLEU of the texts of a run of `quickstart`."""
    _, references, outputs = texts_of(row, seed)
    return float(BLEU().corpus_score(outputs, [references]).score)


def quickstart(store: Path, seeds: int = 2) -> Path:
    """Write the four rows of the quickstart sweep: one failed, the others finished."""
    for row, (label, base) in ROWS.items():
        branched = row in ("weighted", "uniform")
        for seed in range(1, seeds + 1):
            if row == "learned_positions" and seed == 2:
                folder = write(
                    store, row, seed, label=label, state="failed", reason="The loss is not finite.", until=500
                )
                folder.log.write_text("step 400 loss 5.1\nstep 500 loss nan\nThe loss is not finite.\n")
                continue
            kind = {"model__kind": "weighted"} if branched else {}
            texts = texts_of(row, seed)
            folder = write(
                store,
                row,
                seed,
                label=label,
                base=base,
                bleu=score(row, seed),
                branched=branched,
                texts=texts,
                parameters=1_046_528 - 1504 * branched,
                **kind,
            )
            (folder.path / "attention.json").write_text(json.dumps(attention()))
    return store


def grid(store: Path) -> Path:
    """Write a grid of three learning rates, which move BLEU by 5, and three depths, which move it by 2."""
    for at, lr in enumerate((0.25, 0.5, 1.0)):
        for n in (1, 2, 3):
            row = f"lr{lr}_N{n}"
            write(store, row, sweep="grid", base=None, bleu=59.0 + 5 * at + 2 * n, recipe__lr=lr, model__N=n)
    return store


def repeated(payload: dict[str, Any], rows: int) -> dict[str, Any]:
    """Return the payload of a sweep with `rows` rows in its table, the first ones again and again under other names."""
    table = payload["table"]
    own = len(table["rows"])
    again = [{**table["rows"][at % own], "row": f"again{at}", "label": f"Again {at}"} for at in range(own, rows)]
    keys = [{**key, "values": [key["values"][at % own] for at in range(rows)]} for key in table["keys"]]
    return {**payload, "table": {**table, "rows": [*table["rows"], *again], "keys": keys}}


def many(store: Path, rows: int = 200) -> Path:
    """Write a sweep of `rows` rows with one seed each; make all but the first from its text."""
    first = write(store, "row000", sweep="many", label="Row 000", base="row000", bleu=70.0)
    texts = {name: (first.path / name).read_text() for name in ("config.yaml", "status.json", "result.json")}
    for at in range(1, rows):
        home = run_home(store, sweep="many", row=f"row{at:03d}", seed=1)
        home.mkdir(parents=True)
        bleu = 70 + (at * 37 % 199) / 10
        config = texts["config.yaml"].replace("row: row000", f"row: row{at:03d}").replace("Row 000", f"Row {at}")
        result = json.loads(texts["result.json"])
        result["scores"]["test"]["bleu"]["value"] = bleu
        (home / "config.yaml").write_text(config.replace("base: null", "base: row000"))
        (home / "status.json").write_text(texts["status.json"])
        steps = range(STEPS // 12, STEPS + 1, STEPS // 12)
        (home / "metrics.jsonl").write_text("".join(json.dumps(line(step, bleu)) + "\n" for step in steps))
        RunFolder(home).write_result(result)
    return store
