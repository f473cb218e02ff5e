"""Each invalid configuration is rejected with a message that says what to do."""

import dataclasses
from typing import Any

import pytest

from variations.configuration.compose import compose_run, from_dict
from variations.configuration.faults import averaged_steps, faults
from variations.tasks.translation.config import TranslationConfig


def configured(**changes: Any) -> TranslationConfig:
    """Return the schema's defaults with some keys changed; `__` stands for a dot."""
    values: dict[str, Any] = {}
    for name, value in changes.items():
        node = values
        *parts, last = name.split("__")
        for part in parts:
            node = node.setdefault(part, {})
        node[last] = value
    return from_dict(values, TranslationConfig)


WEIGHTED = {"model__kind": "weighted"}
AT_ONCE = "must be a whole number, at least 1, or auto."
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "no row at once": ({"sweep__at_once": 0}, f"sweep.at_once=0: {AT_ONCE}"),
    "lots at once": ({"sweep__at_once": "lots"}, f"sweep.at_once=lots: {AT_ONCE}"),
    "nearly auto": ({"sweep__at_once": "atuo"}, f"sweep.at_once=atuo: {AT_ONCE} Did you mean 'auto'?"),
    "nothing tested": ({"decode__sets": []}, "decode.sets=[] tests nothing: name sets, such as [test]"),
    "length penalty": ({"decode__alpha": 1e308}, "decode.alpha=1e+308: must be at least 0 and at most 100"),
    "width": ({"model__d_model": 100_000_000}, "model.d_model=100000000: must be at least 2 and at most 1048576"),
    "threads": ({"trainer__threads": 100_000}, "trainer.threads=100000: must be at least 1 and at most 1024"),
    "allowed": (
        {"resume__allow": ["trainer.max_steps", "trainer", "trainer.max_step"]},
        "resume.allow: there is no key 'trainer.max_step'. Did you mean 'trainer.max_steps'?",
    ),
    "heads": ({"model__h": 3}, "model.h=3 does not divide model.d_model=512: choose model.h among 1, 2, 4, 8"),
    "heads with d_k only": ({"model__h": 3, "model__d_k": 64}, "or set model.d_v explicitly"),
    "odd width": ({"model__d_model": 63, "model__h": 1}, "model.d_model=63 is odd"),
    "t2t width": (
        {"model__d_model": 2, "model__h": 1, "positions__form": "t2t"},
        "model.d_model=2 must be at least 4",
    ),
    "restricted": ({"model__attention": "restricted"}, "set model.neighbourhood=8"),
    "neighbourhood": ({"model__neighbourhood": 4}, "model.neighbourhood=4 has no effect"),
    "weighted additive": ({**WEIGHTED, "model__attention": "additive"}, "model.attention=additive cannot be branched"),
    "experimental on a CPU": (
        {"profile": "experimental"},
        "profile=experimental adds kernels for GPUs, but trainer.accelerator=cpu: use profile=auto",
    ),
    "sigmoid of one branch": (
        {**WEIGHTED, "branch__M": 1, "branch__constraint": "sigmoid"},
        "branch.constraint=sigmoid cannot begin with the weight 1 of a single branch (branch.M=1): set branch.M to",
    ),
    "sigmoid of one head": (
        {**WEIGHTED, "model__h": 1, "branch__constraint": "sigmoid"},
        "of a single branch (model.h=1): set branch.M to at least 2, or another constraint",
    ),
    "gate": (
        {**WEIGHTED, "branch__gate__kind": "topk", "branch__gate__k": 9},
        "branch.gate.k=9 is more than the M=8 branches (model.h): choose 1 to 8",
    ),
    "gate M": (
        {**WEIGHTED, "branch__M": 4, "branch__gate__kind": "topk_input", "branch__gate__k": 5},
        "branch.gate.k=5 is more than the M=4 branches (branch.M)",
    ),
    "split": (
        {**WEIGHTED, "branch__M": 7, "branch__ffn": "split"},
        "branch.ffn=split needs M=7 branches (branch.M) to divide model.d_ff=2048: choose model.d_ff=2051",
    ),
    "nothing branched": (
        {**WEIGHTED, "branch__encoder": False, "branch__decoder": "none"},
        "leave no attention branched: use model=transformer",
    ),
    "nothing learned": (
        {**WEIGHTED, "branch__kappa": False, "branch__alpha": False},
        "leave no branch weight to learn: use branch=uniform",
    ),
    "frozen": (
        {**WEIGHTED, "trainer__max_steps": 600},
        "branch.freeze_last=10000 freezes κ and α for the whole run of trainer.max_steps=600: "
        "choose less, such as branch.freeze_last=100",
    ),
    "scope": (
        {**WEIGHTED, "branch__scope": "shared_enc_dec", "branch__decoder": "none"},
        "branch.scope=shared_enc_dec shares κ and α between both stacks",
    ),
    "inner norm": ({**WEIGHTED, "branch__inner_norm": True}, "set branch.impl=naive"),
    "folder": ({"data__kind": "folder", "data__name": "files"}, "data=files reads files, so it needs data.root"),
    "languages": ({"data__target": "en"}, "data.source and data.target are both 'en'"),
    "no language": ({"data__source": " "}, "data.source is empty"),
    "lengths": (
        {"positions__kind": "learned", "positions__max_length": 100},
        "positions.max_length=100 is shorter than data.max_length=256",
    ),
    "micro batch": (
        {"trainer__tokens_per_batch": 30_000},
        "trainer.tokens_per_batch=30000 is more than recipe.batch_tokens=25000",
    ),
    "parts of epochs": (
        {"trainer__tokens_per_batch": 10_000, "trainer__extra": {"limit_train_batches": 3}},
        "trainer.extra.limit_train_batches needs updates of one batch on each device, but "
        "trainer.tokens_per_batch=10000 divides those of recipe.batch_tokens=25000 into several: leave one",
    ),
    "small batch": (
        {"recipe__batch_tokens": 100},
        "recipe.batch_tokens=100 cannot hold one sentence of data.max_length=256",
    ),
    "averaging": (
        {"recipe__average": 5, "recipe__average_every": 1500, "trainer__max_steps": 1000},
        "need more than 6000 steps, but trainer.max_steps=1000: set recipe.average=1 or recipe.average_every=100",
    ),
    "more averages than are stored": (
        {"recipe__average": 70, "trainer__max_steps": 1000},
        "recipe.average=70: only 67 checkpoints are stored, recipe.average_every=null being 1.5 % of "
        "trainer.max_steps=1000: set recipe.average=67 or recipe.average_every=14.",
    ),
    "files for the built-in corpus": (
        {"data__root": "/texts"},
        "data=toy is the built-in corpus, and reads no files from data.root=/texts: for them, set data=files.",
    ),
    "more averages than steps": (
        {"recipe__average": 20, "trainer__max_steps": 10},
        "recipe.average=20 is more than trainer.max_steps=10",
    ),
    "two averages": ({"recipe__average": 5, "recipe__ema": 0.99}, "are two ways to average"),
    "sharded": ({"trainer__strategy": "fsdp"}, "shard a network (fsdp, deepspeed, model_parallel) cannot be used: an"),
    "devices": ({"trainer__devices": 2}, "trainer.devices=2 needs trainer.strategy=ddp"),
    "nodes": ({"trainer__nodes": 2}, "trainer.nodes=2 needs trainer.strategy=ddp"),
    "double on a GPU": (
        {"trainer__precision": "64-true", "trainer__accelerator": "gpu"},
        "use bf16-mixed or 32-true on a GPU",
    ),
    "no package of a callback": (
        {"callbacks": {"x": {"_target_": "nosuch.Boom"}}},
        "callbacks.x._target_=nosuch.Boom: there is no package nosuch. Install its package",
    ),
    "no class of a callback": (
        {"callbacks": {"x": {"_target_": "suite.Boom"}}},
        "callbacks.x._target_=suite.Boom: suite has no Boom.",
    ),
    "no module of a callback": (
        {"callbacks": {"x": {"_target_": "json.nosub.Boom"}}},
        "callbacks.x._target_=json.nosub.Boom: json has no nosub.",
    ),
    "no package at all": ({"callbacks": {"x": {"_target_": "Boom"}}}, "name a class as package.module.Class."),
    "no package of a logger": (
        {"logger__further": {"x": {"_target_": "lightning.Boom"}}},
        "logger.further.x._target_=lightning.Boom: there is no package lightning. Install its package",
    ),
    "n-best": ({"decode__nbest": 2}, "decode.nbest=2: a run stores one output of each sentence, so leave it at 1."),
    "stem of the built-in corpus": (
        {"data__dev": "newstest2013"},
        "data.dev=newstest2013: data=toy has only valid; for sets of your own, set data=files data.root=FOLDER.",
    ),
    "quick check without its name": (
        {"debug__overfit_batches": 1},
        "debug.overfit_batches=1 validates on training data: add debug=overfit",
    ),
    "seed of files": (
        {"data__kind": "folder", "data__root": "x", "data__seed": 7},
        "data.seed=7 changes nothing: only data=toy is generated from a seed. Leave it out.",
    ),
    "rows alone": ({"rows": ["big"]}, "rows=… selects rows of a sweep: add sweep=NAME"),
    "seeds alone": ({"seeds": [1, 2]}, "--multirun seed=1,2"),
    "no rows": ({"rows": [], "sweep__name": "x"}, "rows=[] selects no row"),
    "no seeds": ({"seeds": [], "sweep__name": "x"}, "seeds=[] selects no seed"),
    "seed twice": ({"seeds": [1, 1], "sweep__name": "x"}, "seeds=[1, 1] names a seed twice"),
    "negative seed": ({"seeds": [-1], "sweep__name": "x"}, "seeds must be at least 0"),
    "parsing": ({"variation__task": "parsing", "variation__row": "wsj"}, "needs task=parsing"),
    "runs": ({"runs": " "}, "runs is empty"),
    "name": ({"name": ".."}, "name='..' cannot name a folder"),
    "name with a slash": ({"name": "a/b"}, "name='a/b' cannot name a folder: use no slash"),
    "name of the folder of single runs": ({"sweep__name": "single"}, "sweep.name=single: the folder of runs outside"),
    "sweep's name": ({"sweep__name": "../x"}, "sweep.name='../x' cannot name a folder"),
    "seed's name": ({"name": "seed3"}, "name=seed3: folders of single seeds have such names"),
    "seed's row": ({"variation__row": "seed3-attempt2"}, "variation.row=seed3-attempt2: folders of single seeds"),
    "choice": (
        {"model__kind": "wieghted"},
        "Did you mean 'weighted'?",
    ),
    "lower bound": ({"decode__beam": 0}, "decode.beam=0: must be at least 1."),
    "two bounds": ({"model__dropout": 1.0}, "model.dropout=1.0: must be at least 0 and less than 1."),
    "strict bound": ({"recipe__lr": 0.0}, "recipe.lr=0.0: must be greater than 0."),
    "not a number": ({"recipe__lr": float("nan")}, "recipe.lr=nan: must be a finite number."),
    "infinite": ({"recipe__lr": float("inf")}, "recipe.lr=inf: must be a finite number."),
}


@pytest.mark.parametrize("name", CASES)
def test_fault_is_named_alone_with_its_remedy(name: str) -> None:
    changes, expected = CASES[name]
    found = faults(configured(**changes))
    assert len(found) == 1
    assert expected in found[0]


def test_parts_of_epochs_with_updates_of_one_batch_on_each_device_are_no_fault() -> None:
    parts: dict[str, Any] = {"trainer__extra": {"limit_train_batches": 3}}
    two = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    assert faults(configured(**parts)) == []
    assert faults(configured(**parts, **two, trainer__tokens_per_batch=12_500)) == []


def test_as_many_averages_as_are_stored_are_no_fault() -> None:
    """Steps 10, 35, 60, 85 and 110."""
    found = configured(recipe__average=5, recipe__average_every=25, trainer__max_steps=110)
    assert faults(found) == []
    assert averaged_steps(found) == {10, 35, 60, 85, 110}


def test_defaults_have_no_fault() -> None:
    assert faults(TranslationConfig()) == []


def test_explicit_d_k_and_d_v_free_the_number_of_heads() -> None:
    assert faults(configured(model__h=3, model__d_k=64, model__d_v=64)) == []


def test_branch_settings_of_a_plain_transformer_are_not_checked() -> None:
    assert faults(configured(branch__M=7, branch__ffn="split", trainer__max_steps=600)) == []


def test_faults_are_reported_together() -> None:
    found = faults(configured(model__h=3, decode__beam=0, data__target="en", trainer__devices=2))
    assert len(found) == 4
    assert [word in " ".join(found) for word in ("model.h", "decode.beam", "data.target", "trainer.devices")] == [
        True
    ] * 4


def test_a_combination_of_a_value_already_at_fault_is_left_out() -> None:
    assert faults(configured(model__h=0)) == ["model.h=0: must be at least 1."]


@pytest.mark.slow
def test_every_bounded_or_closed_field_is_checked() -> None:
    """An absurd value in any numeric or closed field of the schema is reported by key."""
    checked = 0
    for key, item in _leaves(TranslationConfig()):
        if item.metadata.get("choices"):
            absurd: Any = "no such choice"
        elif item.metadata.get("bounds"):
            absurd = -1.0 if "float" in str(item.type) else -1
        else:
            continue
        found = faults(configured(**{key.replace(".", "__"): absurd}))
        assert any(fault.startswith(f"{key}=") for fault in found), key
        checked += 1
    assert checked > 60


def _leaves(node: Any, prefix: str = "") -> Any:
    for item in dataclasses.fields(node):
        value = getattr(node, item.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", item


@pytest.mark.slow
def test_a_row_of_another_table_is_no_row_of_the_sweep() -> None:
    foreign = compose_run(["sweep=attention_table3", "variation=quickstart/uniform"])
    assert any("quickstart/uniform is not a row of sweep=attention_table3" in fault for fault in faults(foreign))
    own = compose_run(["sweep=my_ablation", "variation=attention_table3/A_h16"])  # the sweep lists it
    assert not any("is not a row of" in fault for fault in faults(own))


@pytest.mark.parametrize("words", [[], ["task=parsing"], ["task=question_answering"]])
def test_no_number_is_larger_than_what_computes_with_it(words: list[str]) -> None:
    """Integers beyond 32 bits and floats beyond float32 would cause tracebacks or exhaust memory hours later."""
    config = compose_run(words)

    def numbers(node: Any, prefix: str = "") -> Any:
        for item in dataclasses.fields(node):
            value, key = getattr(node, item.name), f"{prefix}{item.name}"
            if dataclasses.is_dataclass(value):
                yield from numbers(value, f"{key}.")
            elif item.metadata.get("bounds") and "words" not in item.metadata:
                yield node, item, key

    accepted = []
    for node, item, key in numbers(config):
        before = getattr(node, item.name)
        setattr(node, item.name, 1e300 if "float" in str(item.type) else 2**40)
        if not any(fault.startswith(f"{key}=") for fault in faults(config)):
            accepted.append(key)
        setattr(node, item.name, before)
    assert accepted == []


@pytest.mark.parametrize(
    "key",
    [
        *("model.N", "model.d_k", "model.d_v", "model.h", "model.target_vocabulary", "model.task_vectors"),
        *("branch.M", "data.vocabulary", "data.vocabulary_pad_to", "data.max_length", "data.workers"),
        *("decode.beam", "decode.max_extra", "trainer.devices", "trainer.nodes"),
    ],
)
def test_sizes_that_no_machine_holds_are_refused(key: str) -> None:
    text = f"{key}=1000000000: must be at most "
    assert any(fault.startswith(text) for fault in faults(configured(**{key.replace(".", "__"): 1_000_000_000})))


def test_sets_of_a_treebank_are_checked_before_the_training() -> None:
    config = compose_run(["task=parsing"])
    config.decode.sets = ["dev", "nope"]
    assert faults(config) == ["decode.sets names nope, but a treebank has only dev and test."]
    config.decode.sets = []
    assert faults(config) == ["decode.sets=[] tests nothing: name sets, such as [test] or [test,dev]."]
    config.decode.sets = ["dev", "dev"]
    assert faults(config) == ["decode.sets=['dev', 'dev'] names a set twice: leave the second out."]


@pytest.mark.parametrize("key", ["root", "cache"])
def test_an_empty_name_of_a_folder_is_not_the_current_one(key: str) -> None:
    assert faults(configured(**{f"data__{key}": ""})) == [f"data.{key} is empty: name a folder, or leave it out."]


def test_a_configuration_is_composed_again_if_the_environment_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for value in ("2", "4", "2"):
        monkeypatch.setenv("HEADS", value)
        found.append(compose_run(["model.h=${oc.env:HEADS}", "recipe.warmup=${oc.env:WARM,7}"]))
    assert [(config.model.h, config.recipe.warmup) for config in found] == [(2, 7), (4, 7), (2, 7)]
