"""Trees as ids."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from variations.data.batching import collate
from variations.data.special import EOS
from variations.system.errors import DataError
from variations.tables.alike import other_scale
from variations.tasks.parsing.config import DEV_TREES
from variations.tasks.parsing.corpus import Corpus, Encoding, TreePairs
from variations.tasks.parsing.linearise import Repairs, delinearise
from variations.tasks.parsing.task import TASK
from variations.tasks.parsing.trees_toy import generate


def corpus() -> Corpus:
    trees = generate(60, seed=3)
    return Corpus("built in", trees[:40], trees[40:50], trees[50:])


@pytest.mark.parametrize("form", ["tensor2tensor", "vinyals"])
def test_ids_hold_the_whole_tree(form: str) -> None:
    data = corpus()
    encoding = Encoding.of(data, form, words=200, symbols=64)
    pairs = TreePairs(data.train, encoding)
    assert (len(pairs), pairs.dropped) == (40, 0)
    for number, tree in enumerate(data.train):
        index, source, target = pairs[number]
        assert (index, source[-1], target[-1]) == (number, EOS, EOS)
        assert len(source) == len(tree.words()) + 1
        symbols = encoding.symbols.decode(target.tolist())
        tags = [leaf.label for leaf in tree.leaves()] if form == "vinyals" else None
        assert delinearise(symbols, tree.words(), encoding.form, tags=tags) == (tree, Repairs())
    batch = collate([pairs[0], pairs[1]])
    assert batch.target_tokens == pairs.target_lengths[:2].sum()


def test_long_trees_are_left_out_and_counted() -> None:
    data = corpus()
    encoding = Encoding.of(data, "tensor2tensor", words=200, symbols=64)
    everything = TreePairs(data.train, encoding)
    longest = int(np.median(everything.target_lengths))
    pairs = TreePairs(data.train, encoding, longest)
    assert pairs.too_long == (everything.target_lengths > longest).sum() > 0
    assert pairs.kept_index.tolist() == np.flatnonzero(everything.target_lengths <= longest).tolist()
    assert all((pairs.pair(k)[1] == everything.pair(n)[1]).all() for k, n in enumerate(pairs.kept_index))
    assert len(TreePairs([], encoding)) == 0


def test_symbols_without_room_are_refused() -> None:
    with pytest.raises(DataError, match=r"model\.target_vocabulary=10: raise it"):
        Encoding.of(corpus(), "tensor2tensor", words=200, symbols=10)


def test_further_trees_are_trained_on_and_fingerprinted(tmp_path: Path) -> None:
    path = tmp_path / "auto.txt"
    path.write_text("(S (NN snow) (VB fell))", encoding="utf-8")
    data = corpus()
    more = Corpus(data.described, data.train, data.dev, data.test, extra=(path,))
    encoding = Encoding.of(more, "tensor2tensor", words=200, symbols=64)
    assert len(TreePairs(more.training(), encoding)) == 41
    assert "VB" in encoding.symbols.names
    assert list(more.fingerprint()) == ["auto.txt"]


def test_faults_of_all_further_files_are_reported_together(tmp_path: Path) -> None:
    texts = {"open": "(S (NN snow)", "good": "(S (NN snow) (VB fell))", "empty": "", "closed": "(S (NN snow)))"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    data = corpus()
    more = Corpus(data.described, data.train, data.dev, data.test, extra=tuple(tmp_path / name for name in texts))
    with pytest.raises(DataError) as caught:
        Encoding.of(more, "tensor2tensor", words=200, symbols=64)
    faults = str(caught.value).splitlines()
    assert [fault.split(",")[0] for fault in faults] == [
        str(tmp_path / "open"),
        f"{tmp_path / 'empty'} contains no tree",
        str(tmp_path / "closed"),
    ]


def composition(corpus: Corpus) -> dict[str, str]:
    return corpus.composition(corpus.fingerprint())


def test_a_set_that_has_grown_has_another_fingerprint(tmp_path: Path) -> None:
    """Names that only one of two runs has do not count, so an added file is seen by what both have."""
    data = corpus()
    grown = replace(data, dev=[*data.dev, data.train[0]])
    assert {name for name, value in composition(grown).items() if composition(data)[name] != value} == {DEV_TREES}
    files = tmp_path / "a.txt", tmp_path / "b.txt"
    for file in files:
        file.write_text("(S (NN snow) (VB fell))", encoding="utf-8")
    one, two = (composition(replace(data, extra=extra)) for extra in (files[:1], files))
    assert {name for name in two if one[name] != two[name]} == {"the files of the treebank"}
    scales = [TASK.loss_scale({"data": {}}, {}, inputs) for inputs in (composition(data), composition(grown))]
    assert other_scale(*scales) == "the dev trees"
