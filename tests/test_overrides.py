"""Overrides of the command line: what is a fault, and what is said of it."""

from pathlib import Path

import pytest
from command_lines import faults_of

from variations.commands.preflight import preflight
from variations.commands.record import RecordConfig
from variations.configuration.compose import register_schema
from variations.configuration.places import CONF
from variations.configuration.tasks import named
from variations.store.differences import idle
from variations.tasks.parsing.config import ParsingConfig
from variations.tasks.question_answering.config import QuestionAnsweringConfig
from variations.tasks.translation.config import TranslationConfig

pytestmark = pytest.mark.usefixtures("restored_signals")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("size=huge", "size=huge: there is no such option. Valid choices for size: base, base_scaled, big,"),
        ("model=transfomer", "Did you mean 'transformer'? Valid choices for model: "),
        ("model=memn3n", "Did you mean 'memnn' or 'memn2n'? "),
        ("variation=uniform", "Did you mean 'quickstart/uniform' or 'weighted_table3/uniform'?"),
        ("lr=0.1", "lr=0.1: there is no key or group 'lr'. Did you mean recipe.lr=0.1?"),
        ("beam_size=5", "Did you mean decode.beam=5?"),
        ("max_epochs=5", "the length of training is counted in updates: trainer.max_steps."),
        ("gpus=2", "Did you mean trainer.devices=2?"),
        ("quick=recipe", "there is no key or group 'quick'"),
        ("trainer.max_step=5", "Did you mean trainer.max_steps=5?"),
        ("recipe.zzz=1", "there is no key 'recipe.zzz'. Keys of recipe: name,"),
        ("+model.foo=3", "there is no key 'model.foo'"),
        ("model.N=2.5", "model.N=2.5: must be a whole number, at least 1."),
        ("model.N=1e2", "model.N=100.0: write a whole number without point and exponent: model.N=100."),
        ("recipe.batch_tokens=1e9", "recipe.batch_tokens=1000000000: must be at most 16777216."),
        ("trainer.max_steps=1e30", "trainer.max_steps=1000000000000000019884624838656: must be at most 1000000000."),
        ("sweep.lease_seconds=1e-9", "sweep.lease_seconds=1e-09: must be at least 1 and at most 86400."),
        ("model.N=true", "model.N=True: must be a whole number"),
        ("model.h=null", "model.h=null: a value is needed"),
        ("deterministic=2", "deterministic=2: must be true or false."),
        ("rows=a", "rows=a: a list needs brackets: type rows=[a]."),
        ("rows=a,b", "rows=a,b: a list needs brackets: type rows=[a,b]."),
        ("seeds=1,2", "seeds=1,2: a list needs brackets: type seeds=[1,2]."),
        ("row=a", "Did you mean rows=[a]? For one run of a row, type variation=TABLE/ROW."),
        ("variation=quickstart/unform", "Did you mean 'quickstart/uniform'? Rows of this table: quickstart/"),
        ("variation=nothing", "there is no such option. Type variation=TABLE/ROW; tables: attention_table2, "),
        ("variation=quickstart", "quickstart is a table: choose one of its rows, quickstart/learned_positions, "),
        ("hydra.launcher=slurm", "a group is chosen with a slash: type hydra/launcher=slurm."),
        ("seeds=[1", "'seeds=[1' cannot be read: its brackets do not match."),
        ("sweep.at_once=0", "sweep.at_once=0: must be a whole number, at least 1, or auto."),
        ("sweep.at_once=1.5", "sweep.at_once=1.5: must be a whole number, at least 1, or auto."),
        ("sweep.at_once=lots", "sweep.at_once=lots: must be a whole number, at least 1, or auto."),
        ("sweep.at_once=[2]", "sweep.at_once=[2]: must be a whole number, at least 1, or auto."),
        ("sweep.seeds=[1,x]", "must be a list of whole numbers such as [1,2]."),
        ("model.kind=[a]", "model.kind=[a]: must be one of transformer, weighted."),
        ("logger.mode=onlin", "logger.mode=onlin: valid choices are online, offline, disabled. Did you mean 'online'?"),
        ("model=null", "model=null: the group cannot be left out. Valid choices for model: additive,"),
        ("~size", "~size: the group size cannot be left out. Valid choices for size: base,"),
        ("+variation=quickstart/uniform", "variation is a group; write it without +."),
        ("+trainer.max_steps=5", "+trainer.max_steps=5: the key trainer.max_steps exists already; write it without +."),
        ("++trainer.max_steps=5", "the key trainer.max_steps exists already; write it without ++."),
        ("++variation=quickstart/uniform", "variation is a group; write it without ++."),
        ("experiment=base", "type variation=TABLE/ROW for a row of a table, --multirun sweep=NAME for a whole table."),
        ("+experiment=base", "type variation=TABLE/ROW for a row of a table"),
        ("callback=early_stopping", "callbacks=early_stopping"),
        ("ckpt_path=last.ckpt", "continues from its last checkpoint when the same command is run again."),
        (
            "hydra.run.dir=here",
            "Hydra makes no folders here; runs=FOLDER, name=NAME and sweep.name=NAME set a run's folder",
        ),
        ("hydra.sweep.dir=here", "Hydra makes no folders here"),
        ("hydra/launcher=basic", "rows are run by local, slurm or ray"),
        ("hydra/sweeper=basic", "leave it out, grids work without it"),
        ("seed=4294967296", "seed=4294967296: must be at least 0 and at most 4294967295."),
        ("name='a\nb'", "use no slash, no line break"),
        (f"name={'x' * 300}", "name=xxxxxxxxxxxxxxxxxxxx… is too long to name a folder: use at most 200 bytes."),
        ("~model.h", "~model.h: the key model.h cannot be removed"),
        ("weighted", "'weighted' is not KEY=VALUE"),
        ("seed=[1", "'seed=[1' cannot be read"),
        ("model=transformer,weighted", "lists several values: add --multirun"),
        ("hydra/launcher=slrm", "hydra/launcher=slrm: there is no such option."),
        ("branch=uniform", "branch=uniform has no effect: model=transformer has no branches: add model=weighted"),
        ("branch.impl=naive", "branch.impl=naive has no effect: model=transformer has no branches"),
        ("sweep=quickstart", "sweep=quickstart has many runs: add --multirun"),
        ("rows=[a]", "add sweep=NAME"),
        ("logger.further=${model.h}", "logger.further=4: must be a dictionary."),
        ("resume.allow=${seed}", "resume.allow=1: must be a list such as [a,b]."),
        ("task=[[1]]", "task=[1]: there is no such option."),
    ],
)
def test_one_bad_override_gives_one_fault(line: str, message: str) -> None:
    (fault,) = faults_of(line)
    assert message in fault


def test_the_folder_of_records_has_a_name_of_its_own() -> None:
    register_schema(RecordConfig, "record")
    (fault,) = preflight(["sweep=quickstart", "out=x"], RecordConfig, "record")
    assert fault == "out=x: there is no key or group 'out'. Did you mean records=x?"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "said", "told"),
    [
        (["task=question_answering", "decode.beam=3"], "'decode.beam' here.", "task=parsing and task=translation"),
        (["task=question_answering", "model.d_ff=3"], "'model.d_ff'. Keys of", "task=parsing and task=translation"),
        (["model.hops=3"], "'model.hops'. Keys of", "task=question_answering"),
    ],
)
def test_a_key_of_another_task_is_said_to_be_one(lines: list[str], said: str, told: str) -> None:
    (fault,) = faults_of(*lines)
    assert f"{lines[-1]}: there is no key {said}" in fault
    assert fault.endswith(f" It is a key of {told}.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["trainer.limit_test=3"], "trainer.limit_test=3 has no effect: this task always uses its whole test"),
        (["recipe.warmup=5"], "recipe.warmup=5 has no effect: in this task the rate is halved"),
        (["recipe.beta1=0.5"], "recipe.beta1=0.5 has no effect: it is a key of recipe.optimizer=adam and adamw"),
        (["data.questions=10k"], "data.questions=10k has no effect: it is a key of data.kind=babi"),
        (["recipe.lr=0.1", "recipe.linear_epochs=2"], "recipe.lr=0.1 has no effect: with recipe.linear_epochs"),
        (
            ["model.ordered=true", "model=memnn", "model.facts=1"],
            "model.ordered=true has no effect: model.facts=1 retr",
        ),
        (["trainer.compile=true"], "trainer.compile=true has no effect: the networks of this task are not compiled"),
        (["recipe.average_every=7"], "recipe.average_every=7 has no effect: recipe.average=1 averages nothing"),
    ],
)
def test_keys_that_question_answering_does_not_use_are_faults(lines: list[str], message: str) -> None:
    (fault,) = faults_of("task=question_answering", *lines)
    assert fault.startswith(message)
    assert faults_of("task=question_answering", "recipe.optimizer=adam", "recipe.beta1=0.5", "recipe.lr=0.1") == []


WEIGHTED = "model=weighted"
UNIFORM = [WEIGHTED, "branch=uniform"]


@pytest.mark.parametrize(
    ("lines", "unused", "why"),
    [
        (["positions.max_length=300"], 0, "sinusoidal positions have no largest one"),
        (["positions.form=t2t", "positions=learned"], 0, "it is a key of positions=sinusoidal"),
        (["recipe.smoothing=torch", "recipe.label_smoothing=0"], 0, "recipe.label_smoothing is 0"),
        (["recipe.average_every=5", "recipe.average=1"], 0, "recipe.average=1 averages nothing"),
        (["decode.alpha=0.2", "decode.beam=1"], 0, "decode.beam=1 does not rank hypotheses by length"),
        (["recipe.eps=1e-6", "recipe.optimizer=sgd"], 0, "it is a key of recipe.optimizer=adam and adamw"),
        ([WEIGHTED, "branch.eval_seed=2"], 1, "branch.eval_mode=learned draws nothing at random"),
        ([WEIGHTED, "branch.gate.renormalise=true"], 1, "branch.gate.kind is none"),
        ([*UNIFORM, "branch.lr_scale=0.1"], 2, "branch.train_mode=uniform learns no κ and α"),
        ([*UNIFORM, "branch.kappa=false"], 2, "branch.train_mode=uniform learns no κ and α"),
        ([WEIGHTED, "branch=softmax", "branch.center_grad=true"], 2, "the gradients of a softmax have the mean 0"),
        ([WEIGHTED, "branch=shakeshake", "branch.center_grad=true"], 2, "random_per_step learns no κ and α"),
    ],
)
def test_keys_that_others_switch_off_are_faults_if_typed(lines: list[str], unused: int, why: str) -> None:
    (fault,) = faults_of(*lines)
    assert fault.startswith(f"{lines[unused]} has no effect: ")
    assert fault.endswith(f"{why}.")
    assert faults_of(*[line for line in lines if line != lines[unused]]) == []


@pytest.mark.parametrize(("kind", "unused"), [("sample", 1), ("treebank", 1), ("toy", 0)])
def test_trees_that_are_read_have_no_seed(kind: str, unused: int) -> None:
    config = ParsingConfig(task="parsing")
    config.data.kind = kind
    assert len(idle(["data.seed=2"], [config])) == unused


@pytest.mark.parametrize("mode", ["uniform", "shakeshake"])
def test_only_the_constraint_that_sets_their_sum_changes_weights_that_are_not_learned(mode: str) -> None:
    lines = [WEIGHTED, f"branch={mode}"]
    (fault,) = faults_of(*lines, "branch.constraint=softmax")
    assert fault.startswith("branch.constraint=softmax has no effect with branch.train_mode=")
    assert faults_of(*lines, "branch.constraint=softmax_xM") == []


def test_a_class_of_another_package_may_read_the_settings_of_ours() -> None:
    """As one that derives from the Weighted Transformer, or from MemN2N, does."""
    config, stories = TranslationConfig(), QuestionAnsweringConfig()
    for kind, unused in (("transformer", 2), ("weighted", 1), ("theirs:Net", 0)):
        config.model.kind = kind
        assert len(idle(["branch.M=4", "positions.max_length=9"], [config])) == unused
        assert ("branch" in named("translation").without_effect({"model.kind": kind})) == (unused == 2)
    for kind, unused in (("memn2n", 0), ("lstm", 1), ("theirs:Net", 0)):
        stories.model.kind = kind
        assert len(idle(["model.hops=2"], [stories])) == unused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sweep", "row", "unused", "message"),
    [
        ("toy_weighted_table2", "C_transformer", "branch.impl=naive", "has no effect: model=transformer has"),
        (
            "babi_memn2n_1k",
            "bow",
            "model.episode=gru",
            "has no effect: model=memn2n does not have it: it is a key of dmn.",
        ),
        ("babi_memn2n_1k", "bow", "recipe.beta1=0.5", "has no effect: it is a key of recipe.optimizer=adam and adamw"),
    ],
)
def test_a_key_that_no_row_of_a_sweep_uses_is_a_fault(sweep: str, row: str, unused: str, message: str) -> None:
    task = ["task=question_answering"] if sweep.startswith("babi") else []
    (fault,) = faults_of(*task, f"sweep={sweep}", f"rows=[{row}]", unused, multirun=True)
    assert f"{unused} {message}" in fault


@pytest.mark.slow
def test_a_key_that_one_row_of_a_sweep_uses_is_none() -> None:
    assert faults_of("sweep=toy_weighted_table2", "branch.impl=naive", multirun=True) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        ["model=weighted", "branch=uniform"],
        ["model=weighted", "branch.gate.kind=topk", "branch.gate.k=4"],
        ["seed=2", "name='a,b'", "data.root=null", "logger.tags=[x,y]", "recipe.lr=1"],
        ["variation=quickstart/weighted", "branch.impl=naive"],
        ["+variation.published.bleu=3", "~debug"],
        ["debug=null", "sweep=null", "variation=null"],
        ["logger=null"],
        ["~logger"],
        ["seed=4294967295", "seed=4294967295"],
        ["sweep=quickstart", "variation=quickstart/uniform"],
        ["model.d_model=${model.d_ff}"],
        ["hydra.verbose=true"],
        ["sweep.at_once=auto"],
        ["sweep.at_once=null"],
        ["name=nan"],  # a text that looks like a number
    ],
)
def test_good_overrides_have_no_fault(lines: list[str]) -> None:
    assert faults_of(*lines) == []


@pytest.mark.slow
def test_a_key_given_twice_is_a_fault() -> None:
    assert faults_of("model.h=2", "model.h=4") == ["model.h=4 and model.h=2: model.h is given twice; leave one out."]
    assert len(faults_of("model=weighted", "model=transformer")) == 1


@pytest.mark.slow
def test_a_glob_that_matches_nothing_says_how_rows_are_named() -> None:
    (fault,) = faults_of("variation=glob(*)", multirun=True)
    assert fault.startswith("variation=glob(*) matches no option of variation, such as variation=glob(")
    assert fault.endswith("/*).")


@pytest.mark.slow
def test_faults_that_follow_from_a_rejected_override_are_not_reported() -> None:
    assert faults_of("model=weightd", "branch=uniform") == [
        "model=weightd: there is no such option. Did you mean 'weighted'? "
        f"Valid choices for model: {', '.join(sorted(path.stem for path in (CONF / 'model').glob('*.yaml')))}."
    ]
    assert len(faults_of("sweep=quickstrt", "rows=[uniform]")) == 1


@pytest.mark.slow
def test_a_sweep_name_of_stored_runs_that_no_file_has_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hint = "runs/quickstart_long has runs of that sweep.name: type sweep=FILE sweep.name=quickstart_long."
    assert hint not in faults_of("sweep=quickstart_long", multirun=True)[0]
    (tmp_path / "runs/quickstart_long").mkdir(parents=True)
    assert hint in faults_of("sweep=quickstart_long", multirun=True)[0]


@pytest.mark.slow
def test_grids_are_checked_in_every_combination() -> None:
    found = faults_of("model=transformer,weighted", "model.h=4,3", "modle=x", "branch.rescale=M", multirun=True)
    assert len(found) == 2
    assert "modle" in found[0]
    assert "rows branch.rescale=M,model.h=3,model=transformer, branch.rescale=M,model.h=3,model=weighted: " in found[1]
    assert "model.h=3 does not divide model.d_model=128" in found[1]


@pytest.mark.slow
def test_keys_of_the_launcher_are_checked_together_with_the_others() -> None:
    found = faults_of(
        *("sweep=quickstart", "hydra/launcher=slurm", "modle=x", "hydra.launcher.time=5", "hydra.launcher.zzz=1"),
        *("hydra.launcher.cpus=lots", "hydra.launcher.mem_gb=0", "+hydra.launcher.additional.constraint=a100"),
        multirun=True,
    )
    assert found[0].startswith("modle=x: ")
    assert found[1].startswith(
        "hydra.launcher.time=5: hydra/launcher=slurm has no key 'time'. Did you mean hydra.launcher.time_min? "
        "Time limit of a job in minutes"
    )
    assert found[2].startswith("hydra.launcher.zzz=1: hydra/launcher=slurm has no key 'zzz'. Its keys are partition, ")
    assert found[3:] == [
        "hydra.launcher.cpus=lots: must be a whole number. CPU cores for each device, or on a CPU for each process.",
        "hydra.launcher.mem_gb=0: must be greater than 0.",
    ]
    (fault,) = faults_of("sweep=quickstart", "hydra.launcher.per_gpu=0", multirun=True)
    assert fault.startswith("hydra.launcher.per_gpu=0: must be a whole number, at least 1, or auto.")
    (fault,) = faults_of("sweep=quickstart", "hydra.launcher.partition=x", multirun=True)
    assert "hydra/launcher=local has no key 'partition'. It is a key of hydra/launcher=slurm." in fault


def test_several_sweeps_are_one_fault() -> None:
    line = "sweep=quickstart,my_ablation"
    assert faults_of(line, multirun=True) == [f"{line}: one sweep at a time: run the command once for each."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("multirun", "line"),
    [
        (False, "name=b"),
        (True, "sweep=quickstart"),
        (True, "model=transformer,weighted"),
        (True, "sweep=search_toy"),
    ],
)
def test_the_folder_of_a_run_is_no_run_store(tmp_path: Path, multirun: bool, line: str) -> None:
    (tmp_path / "config.yaml").touch()
    found = faults_of(line, f"runs={tmp_path}", multirun=multirun)
    assert found == [f"runs={tmp_path} is the folder of one run: give the root of the run store, some folders up."]


@pytest.mark.slow
@pytest.mark.parametrize("sweep", ["search_dropout", "multi30k_weighted_table3"])
def test_files_that_a_folder_lacks_are_told_before_any_row_or_trial(tmp_path: Path, sweep: str) -> None:
    (fault,) = faults_of(f"sweep={sweep}", f"data.root={tmp_path}", multirun=True)
    assert fault.startswith(f"{tmp_path} lacks ")
