"""Write sentence pairs of the toy grammar to a folder: `python tools/make_toy_corpus.py FOLDER --seed 2 --train 40000`.

`train`, `valid` and `test`, each with `.en` and `.de`, as `data=files data.root=FOLDER` reads them, and a dictionary.
The package's own copy, `src/variations/tasks/translation/data/toy`, was written with `--gzip`; tests compare it with
the grammar.
"""

import argparse
import gzip
from pathlib import Path

from toy_corpus import dictionary, generate


def texts(train: int, seed: int) -> dict[str, bytes]:
    """Return the contents of the files by name."""
    splits = dict(zip(("train", "valid", "test"), generate(train=train, seed=seed).values(), strict=True))
    sides = {
        f"{stem}.{language}": "".join(f"{pair[side]}\n" for pair in pairs).encode()
        for stem, pairs in splits.items()
        for side, language in enumerate(("en", "de"))
    }
    words = "".join(f"{english}\t{german}\n" for english, german in dictionary().items())
    return sides | {"dictionary.tsv": words.encode()}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Write sentence pairs of the toy grammar to a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--train", type=int, default=20_000, help="training pairs (the other splits have 500 pairs each)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gzip", action="store_true", help="compress the files; the same text gives the same bytes")
    args = parser.parse_args()
    try:
        made = texts(args.train, args.seed)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        if args.gzip:
            (args.folder / f"{name}.gz").write_bytes(gzip.compress(text, 9, mtime=0))
        else:
            (args.folder / name).write_bytes(text)


if __name__ == "__main__":
    main()
