"""Write the corpus, split it into sub-words, and store the first batches of the first epoch in `train.py`'s order."""

import json
import sys
from pathlib import Path

from workloads import VOCABULARY, WORKLOADS, Step, save, write_text

from variations.configuration.compose import compose_run
from variations.tasks.translation.data.module import TranslationData


def overrides(name: str, text: Path, cache: Path) -> list[str]:
    """The workload as a user would type it."""
    w = WORKLOADS[name]
    sizes = [f"model.{key}={getattr(w, key)}" for key in ("N", "d_model", "d_ff", "h")]
    data = ["data=files", f"data.root={text}", "data.source=a", "data.target=b", f"data.vocabulary={VOCABULARY}"]
    return [*sizes, "model.dropout=0.1", *data, f"data.cache={cache}", f"recipe.batch_tokens={w.batch_tokens}"]


def main() -> None:
    """`prepare.py FOLDER`: FOLDER/text, FOLDER/cache, FOLDER/W1.npz, …; prints the contents of the batches."""
    folder = Path(sys.argv[1])
    text, cache = folder / "text", folder / "cache"
    if not (text / "test.b").exists():
        write_text(text)
    told = {}
    for name, w in WORKLOADS.items():
        data = TranslationData(compose_run(overrides(name, text, cache)))
        data.prepare_data()
        data.setup()
        batches = []
        for batch in data.train_dataloader():
            batches.append(Step(batch.source.numpy(), batch.target.numpy()))
            if len(batches) == w.warmup + w.steps:
                break
        save(folder / f"{name}.npz", batches)
        told[name] = {
            "target_tokens": sum(b.target_tokens for b in batches) / len(batches),
            "mean_length": float(data.train_tokens.target_lengths.mean()),
            "longest": int(data.train_tokens.target_lengths.max()),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
