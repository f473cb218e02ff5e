"""Every shipped configuration composes without faults, and composition works as described."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf, open_dict
from suite import sampled

from variations.configuration import suggestions
from variations.configuration.compose import (
    _is_checked,
    _loader,
    compose_node,
    compose_run,
    from_dict,
    load,
    loader,
    to_config,
    to_dict,
)
from variations.configuration.faults import faults
from variations.configuration.hydra_door import loader_of
from variations.configuration.places import CONF
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import DEFAULT, names
from variations.store.identity import changed_keys
from variations.store.ledger import config_hash
from variations.store.naming import run_folder, run_name, safe_name
from variations.system.errors import ConfigError
from variations.tasks.translation.config import TranslationConfig


def options(group: str) -> list[str]:
    folder = CONF / group
    return sorted(str(path.relative_to(folder))[: -len(".yaml")] for path in folder.rglob("*.yaml"))


GROUPS = ("model", "size", "positions", "data", "recipe", "trainer", "logger", "debug")
CHOICES = [f"{group}={option}" for group in GROUPS for option in options(group)]


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
def test_every_option_composes_without_fault(choice: str) -> None:
    """Compose the option with a task that accepts it: translation if possible, otherwise another."""
    rest = ["no task takes it"]
    for task in sorted(names(), key=lambda name: name != DEFAULT):
        with suppress(ConfigError):
            if rest:
                config = compose_run([f"task={task}", choice])
                rest = [fault for fault in faults(config) if "needs data.root" not in fault]
    assert rest == []


@pytest.mark.parametrize("option", options("branch"))
def test_every_branch_option_composes_with_the_weighted_model(option: str) -> None:
    assert faults(compose_run(["model=weighted", f"branch={option}"])) == []


@pytest.mark.parametrize("option", options("branch"))
def test_every_branch_option_but_learned_changes_something(option: str) -> None:
    plain, changed = (to_dict(compose_run(["model=weighted", *words])) for words in ([], [f"branch={option}"]))
    assert bool(changed_keys(plain, changed)) == (option != "learned")


@pytest.mark.slow
@pytest.mark.parametrize("row", sampled(options("variation"), 2))
def test_every_row_composes(row: str) -> None:
    config = compose_run([f"variation={row}"])
    table, name = row.split("/", 1)
    assert (config.variation.table, config.variation.row) == (table, name)
    assert config.variation.label
    found = faults(config)
    if config.variation.quoted:
        assert len(found) == 1
        assert "a published figure of another system" in found[0]
    elif config.variation.task == "parsing":
        assert all("needs data.root" in fault or "set 'data.extra=" in fault for fault in found)
        assert found
    else:
        assert found == []


@pytest.mark.slow
@pytest.mark.usefixtures("config_dir")
def test_files_that_were_parsed_before_are_composed_as_anew_and_again_when_edited(tmp_path: Path) -> None:
    lines = ["model=weighted", "branch=topk_input", "recipe=quick", "size=tiny"]
    _loader.cache_clear()
    first, _ = compose_node(lines)
    compose_node(["model=weighted", "branch=random", "branch.M=7", "model.h=2"])
    compose_node(["variation=weighted_table2/N8_weighted", "data.root=x"])
    again, _ = compose_node(lines)
    assert again == first and first.branch.gate.kind == "topk_input"
    (tmp_path / "size").mkdir()
    for width in (48, 80):
        text = f"# @package _global_\nmodel: {{d_model: {width}}}\n"
        (tmp_path / "size" / "mine.yaml").write_text(text)
        os.utime(tmp_path / "size" / "mine.yaml", ns=(width, width))
        assert compose_run(["size=mine"]).model.d_model == width
    (tmp_path / "size" / ".#mine.yaml").symlink_to("nobody@nowhere")  # as an editor marks an open file
    assert compose_run(["size=mine", "seed=2"]).model.d_model == 80


def test_default_run() -> None:
    config = compose_run()
    assert (config.model.kind, config.model.N, config.model.d_model) == ("transformer", 2, 128)
    assert (config.positions.kind, config.data.name, config.recipe.name) == ("sinusoidal", "toy", "quick")
    assert (config.trainer.accelerator, config.logger.kind, config.logger.mode) == ("cpu", "auto", None)
    assert (config.debug.name, config.variation.row, config.sweep.name) == (None, None, None)


@pytest.mark.parametrize(
    ("size", "N", "d_model", "d_ff", "h", "dropout"),
    [("base", 6, 512, 2048, 8, 0.1), ("big", 6, 1024, 4096, 16, 0.3), ("multi30k", 4, 128, 256, 4, 0.3)],
)
def test_published_sizes(size: str, N: int, d_model: int, d_ff: int, h: int, dropout: float) -> None:
    m = compose_run([f"size={size}"]).model
    assert (m.N, m.d_model, m.d_ff, m.h, m.dropout) == (N, d_model, d_ff, h, dropout)


def test_weighted_model_has_attention_dropout() -> None:
    m = compose_run(["model=weighted", "size=big"]).model
    assert (m.kind, m.attention_dropout, m.dropout) == ("weighted", 0.1, 0.3)


def test_recipe_vaswani2017() -> None:
    config = compose_run(["recipe=vaswani2017", "size=base"])
    r = config.recipe
    assert (r.schedule, r.lr, r.warmup, r.batch_tokens) == ("noam", 1.0, 4000, 25_000)
    assert (r.beta1, r.beta2, r.eps, r.label_smoothing, r.smoothing) == (0.9, 0.98, 1e-9, 0.1, "t2t")
    assert (config.trainer.max_steps, r.average, r.average_every) == (100_000, 5, 1500)
    assert (config.decode.beam, config.decode.alpha, config.decode.max_extra) == (4, 0.6, 50)


def test_recipe_vaswani2017_is_longer_for_the_big_model() -> None:
    config = compose_run(["recipe=vaswani2017", "size=big"])
    assert (config.trainer.max_steps, config.recipe.average, config.recipe.average_every) == (300_000, 20, 600)


@pytest.mark.slow
def test_recipe_ahmed2017() -> None:
    base = compose_run(["recipe=ahmed2017", "model=weighted", "size=base"])
    big = compose_run(["recipe=ahmed2017", "model=weighted", "size=big"])
    assert (base.trainer.max_steps, big.trainer.max_steps) == (60_000, 250_000)
    assert (base.branch.warmup, base.branch.freeze_last, base.recipe.average) == (400, 10_000, 1)


@pytest.mark.slow
def test_limit_is_twenty_steps_whatever_the_recipe() -> None:
    for recipe in ("ahmed2017", "multi30k", "quick", "vaswani2017"):
        config = compose_run(["model=weighted", "size=big", f"recipe={recipe}", "debug=limit"])
        assert faults(config) == []
        assert (config.trainer.max_steps, config.trainer.limit_test, config.recipe.average) == (20, 32, 1)
        assert config.branch.freeze_last == 3


@pytest.mark.slow
def test_limit_is_twenty_steps_of_every_task() -> None:
    for task in ("parsing", "question_answering"):
        config = compose_run([f"task={task}", "debug=limit"])
        assert faults(config) == []
        assert (config.debug.name, config.trainer.max_steps) == ("limit", 20)
        assert compose_run([f"task={task}"]) == compose_run([f"task={task}", "debug=none"])
    assert faults(compose_run(["task=question_answering", "debug=overfit"])) == [
        "debug.overfit_batches (debug=overfit) is for task=translation and task=parsing: leave it out."
    ]


@pytest.mark.slow
def test_branch_warmup_and_freeze_follow_the_recipe() -> None:
    config = compose_run(["model=weighted", "recipe=multi30k"])
    assert (config.branch.warmup, config.branch.freeze_last) == (200, 1333)
    shorter = compose_run(["model=weighted", "recipe=multi30k", "trainer.max_steps=600"])
    assert shorter.branch.freeze_last == 100


@pytest.mark.slow
@pytest.mark.usefixtures("config_dir")
def test_width_and_steps_are_scaled_by_the_recipe_but_not_what_the_user_types(tmp_path: Path) -> None:
    row = tmp_path / "variation" / "mine" / "row.yaml"
    row.parent.mkdir(parents=True)
    row.write_text(
        "# @package _global_\nmodel:\n  N: ${depth:6}\n  d_model: ${width:512}\n  d_k: ${width:2}\n"
        "trainer:\n  max_steps: ${steps:100000}\n"
    )

    def compose(*more: str) -> TranslationConfig:
        return compose_run(["variation=mine/row", *more])

    scaled = compose("recipe.scale.width=0.25", "recipe.scale.depth=0.5", "recipe.scale.steps=0.04")
    assert (scaled.model.N, scaled.model.d_model, scaled.model.d_k, scaled.trainer.max_steps) == (3, 128, 1, 4000)
    full = compose("recipe=vaswani2017")
    assert (full.model.N, full.model.d_model, full.model.d_k, full.trainer.max_steps) == (6, 512, 2, 100_000)
    typed = compose("recipe.scale.width=0.25", "model.d_model=512", "trainer.max_steps=7")
    assert (typed.model.d_model, typed.trainer.max_steps) == (512, 7)


def test_sweeps_stand_where_hydra_looks_for_them() -> None:
    link = CONF / "sweep"
    assert link.is_symlink()
    assert str(link.readlink()) == "../sweeps"
    assert (link / "quickstart.yaml").is_file()


@pytest.mark.parametrize("sweep", options("sweep"))
def test_every_sweep_names_itself(sweep: str) -> None:
    assert compose_run([f"sweep={sweep}"]).sweep.name == Path(sweep).name


@pytest.mark.slow
def test_round_trip_through_yaml(tmp_path: Path) -> None:
    config = compose_run(["model=weighted", "branch=topk", "seed=7"])
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(to_dict(config)))
    assert load(path) == config


def test_older_configurations_take_defaults_for_new_keys() -> None:
    assert from_dict({"model": {"h": 4}}, TranslationConfig).model.d_model == 512


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {heads: 4}", "unknown key 'model.heads'"),
        ("model: {h: many}", "model.h"),
        ("model: [", "cannot be read"),
        ("5", "does not contain keys and values"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no configuration at"):
        load(tmp_path / "config.yaml")


@pytest.mark.usefixtures("config_dir")
def test_a_faulty_row_file_is_named(tmp_path: Path) -> None:
    row = tmp_path / "variation" / "mine" / "row.yaml"
    row.parent.mkdir(parents=True)
    row.write_text("# @package _global_\nmodel:\n  heads: 3\n")
    with pytest.raises(ConfigError) as error:
        compose_run(["variation=mine/row"])
    assert "variation/mine/row" in str(error.value)
    assert "unknown key 'model.heads'" in str(error.value)

    row.write_text("# @package _global_\nmodel.h: 1\ntrainer.extra: {a.b: 1}\n")
    heir = row.with_name("heir.yaml")
    heir.write_text("# @package _global_\ndefaults: [row, _self_]\nrecipe: quick\nmodel: {attention.kind: [a]}\n")
    with pytest.raises(ConfigError) as error:
        compose_run(["variation=mine/heir"])
    assert error.value.faults == [
        f"{heir}: `recipe` is a group: write `defaults: [{{override /recipe: quick}}]`.",
        f"{heir}: 'attention.kind' is written with a dot; in a file write `model: {{attention: {{kind: [a]}}}}`.",
        f"{row}: 'model.h' is written with a dot; in a file write `model: {{h: 1}}`.",
    ]


@pytest.mark.usefixtures("config_dir")
def test_a_key_with_a_dot_in_the_file_of_a_group_is_no_key_of_another_task(tmp_path: Path) -> None:
    (tmp_path / "size").mkdir()
    (tmp_path / "size" / "mine.yaml").write_text("# @package _global_\nmodel.h: 1\n")
    with pytest.raises(ConfigError, match=r"'model\.h' is written with a dot; in a file write `model: \{h: …\}`$"):
        compose_run(["size=mine"])


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            ["task=question_answering", "recipe=vaswani2017"],
            "recipe=vaswani2017 cannot be used here: it sets recipe.label_smoothing, which is a key of task=parsing "
            "and task=translation, and this run has another task. Add task=parsing or task=translation, or leave it "
            "out.",
        ),
        (["task=question_answering", "size=tiny"], "there is no group 'size' here: leave size=… out"),
        (
            ["recipe=sukhbaatar2015"],
            "recipe=sukhbaatar2015 cannot be used here: it sets recipe.batch_size, which is a key of "
            "task=question_answering, and this run has another task. Add task=question_answering, or leave it out.",
        ),
    ],
)
def test_an_option_for_other_tasks_is_refused_in_one_sentence(typed: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_run(typed)
    assert error.value.faults == [message]


@pytest.mark.slow
def test_run_folder_outside_a_sweep_is_named_by_what_it_is() -> None:
    config = compose_run(["model=weighted", "seed=3"])
    folder = run_folder(config)
    assert folder.parts[:2] == ("runs", "single")
    assert folder.parts[2].startswith("weighted-N2-d128-toy-quick-")
    assert folder.parts[3] == "seed3"
    assert run_name(compose_run(["model=weighted"])) == folder.parts[2]
    assert run_name(compose_run(["model=weighted", "model.h=8"])) != folder.parts[2]
    assert run_name(compose_run(["model.kind=my_package.networks:MyModel"])).startswith("MyModel-toy-quick-")


def test_run_folder_does_not_change_with_places_and_loggers() -> None:
    here, there = compose_run(), compose_run(["runs=/elsewhere", "logger=none", "data.cache=/tmp/x"])
    assert run_name(here) == run_name(there)
    assert config_hash(to_dict(here)) == config_hash(to_dict(there))


@pytest.mark.slow
def test_run_folder_in_a_sweep_and_by_name() -> None:
    row = compose_run(["sweep=quickstart", "variation=quickstart/uniform", "seed=2", "runs=store"])
    assert run_folder(row) == Path("store/quickstart/uniform/seed2")
    assert run_folder(compose_run(["name=mine"])) == Path("runs/single/mine/seed1")


@pytest.mark.slow
def test_a_long_name_is_not_cut_where_runs_differ() -> None:
    row = "x" * 150
    names = {run_name(compose_run([f"variation.row={row}", f"model.h={h}"])) for h in (2, 4)}
    assert len(names) == 2
    assert all(len(name) <= 120 for name in names)


def test_safe_names() -> None:
    assert safe_name("model=weighted,branch.gate={k: 2}") == "model=weighted,branch.gate=_k_2"
    assert safe_name("../../x") == "x"
    assert safe_name("...") == "run"
    assert len(safe_name("x" * 500, "12345678")) == 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["model=weighted", "model.h=2", "seed=4"],
        ["variation=weighted_table2/N8_weighted", "recipe=quick", "variation.label='a, b'", "model.N=1"],
        ["task=question_answering", "model=memn2n", "data.tasks=[1,2]"],
        ["+callbacks={mine: {_target_: a.B}}", "size=tiny", "trainer.threads=null"],
        ["resume.allow=[seed]", "~positions", "hydra.job.name=other", "+data.options={a: 1}"],
    ],
)
def test_values_are_set_in_shared_files_as_hydra_sets_them(lines: list[str]) -> None:
    from hydra.types import RunMode

    expected = loader().load_configuration("train", lines, RunMode.RUN, from_shell=False)
    choices = dict(expected.hydra.runtime.choices)
    ours = {group: option for group, option in choices.items() if not group.startswith("hydra/")}
    with open_dict(expected):
        del expected["hydra"]
    for _ in range(2):  # the second time, the files are shared
        assert compose_node(lines) == (expected, choices if any("hydra." in line for line in lines) else ours)
        assert compose_node(lines, whole=True) == (expected, choices)
    compose_node([*lines, "seed=5", "name=other"])
    assert compose_node(lines)[0] == expected


@pytest.mark.parametrize(
    ("lines", "direct"),
    [
        ([], True),
        (["variation=weighted_table2/N8_weighted", "recipe=quick", "trainer.threads=null"], True),
        (["+callbacks={mine: {_target_: a.B}}", "resume.allow=[seed]"], True),
        (["~seed"], False),  # the schema's default replaces what is absent or missing
        (["seed=???"], False),
    ],
)
def test_a_tree_is_not_merged_with_its_schema_again_unless_it_lacks_values(lines: list[str], direct: bool) -> None:
    node, _ = compose_node(lines)
    merged = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TranslationConfig), node))
    assert _is_checked(node, TranslationConfig) is direct
    assert to_config(node, RunConfig) == merged


def test_a_tree_with_a_key_that_the_schema_lacks_is_merged() -> None:
    node, _ = compose_node([])
    OmegaConf.set_struct(node.model, False)
    node.model.other = 1
    assert not _is_checked(node, TranslationConfig)


def test_an_option_that_is_added_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "train.yaml").write_text("a: 1", encoding="utf-8")
    files = loader_of(tmp_path)
    for name in ("first", "second"):  # within one tick of the clock
        (folder / f"{name}.yaml").write_text("a: 1", encoding="utf-8")
        assert name in suggestions.options(files, "model")
    os.utime(folder, (1, 1))
    assert suggestions.options(files, "model") == ["first", "second"]
    (folder / "third.yaml").write_text("a: 1", encoding="utf-8")
    assert "third" in suggestions.options(files, "model")
