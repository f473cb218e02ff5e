"""The record of a search: totals, proposals, and what must not change as it grows."""

import errno
import os
import resource
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from suite import sampled

from variations.configuration.compose import compose_run, to_dict
from variations.configuration.places import CONF
from variations.configuration.tasks import named
from variations.searching.continuing import STORE
from variations.searching.definition import Definition
from variations.searching.pruning import Reporter
from variations.searching.show import summary
from variations.searching.study import DEFINED, Study
from variations.store import inputs
from variations.store.ledger import RunFolder
from variations.system.errors import ConfigError, UserError
from variations.tasks.translation.data.fingerprints import present

from .conftest import finish

Make = Callable[..., Definition]


def proposals(study: Study, score: Callable[[dict[str, Any]], float], count: int) -> list[dict[str, Any]]:
    found = []
    for _ in range(count):
        reserved = study.reserve("me")
        assert reserved is not None
        found.append(reserved[1])
        finish(study, reserved[0], score(reserved[1]))
    return found


@pytest.mark.slow
def test_the_total_holds_for_any_number_of_processes_and_calls(defined: Make) -> None:
    numbers: list[int] = []

    def work() -> None:
        study = Study(defined())
        while (reserved := study.reserve("me")) is not None:
            numbers.append(reserved[0])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == [0, 1, 2, 3, 4, 5]
    assert Study(defined()).reserve("me") is None
    assert Study(defined(sweep__search__trials=7)).reserve("me") is not None


@pytest.mark.slow
def test_sqlite_keeps_a_study_as_well(tmp_path: Path, defined: Make) -> None:
    definition = defined(sweep__search__storage=f"sqlite:///{tmp_path}/s.db", sweep__search__trials=2)
    proposals(Study(definition), lambda values: values["model.dropout"], 2)
    assert Study(definition).reserve("me") is None
    assert [trial.state.name for trial in Study(definition).trials()] == ["COMPLETE", "COMPLETE"]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", sampled(["tpe", "random", "gp"], 3))
def test_proposals_depend_on_the_record_and_not_on_interruptions(tmp_path: Path, defined: Make, sampler: str) -> None:
    changes = {"sweep__search__sampler": sampler, "sweep__search__startup": 2, "model__N": "1,2,3"}
    whole = Study(defined(runs=str(tmp_path / "a"), **changes))
    unbroken = proposals(whole, lambda values: -values["model.dropout"], 5)
    broken = []
    for _ in range(5):
        again = Study(defined(runs=str(tmp_path / "b"), **changes))
        broken += proposals(again, lambda values: -values["model.dropout"], 1)
    assert unbroken == broken
    assert len({str(values) for values in unbroken}) == 5


@pytest.mark.slow
def test_a_grid_does_every_cell_once_the_baseline_first(defined: Make) -> None:
    definition = defined(
        "sweep.search.baseline=quickstart/transformer",
        sweep__search__sampler="grid",
        sweep__search__trials="null",
        model__dropout="0.0,0.1",
        model__N="range(1,4)",
    )
    study = Study(definition)
    found = proposals(study, lambda values: values["model.N"], 6)
    assert found[0] == {"model.dropout": 0.0, "model.N": 2}
    cells = {(dropout, n) for dropout in (0.0, 0.1) for n in (1, 2, 3)}
    assert {(values["model.dropout"], values["model.N"]) for values in found} == cells
    assert study.reserve("me") is None


@pytest.mark.slow
def test_the_baseline_is_enqueued_once(defined: Make) -> None:
    definition = defined("sweep.search.baseline=quickstart/transformer")
    Study(definition)
    study = Study(definition)
    first, second = study.reserve("me"), study.reserve("me")
    assert first == (0, {"model.dropout": 0.0})
    assert second is not None
    assert second[1] != {"model.dropout": 0.0}


@pytest.mark.slow
def test_a_study_that_was_killed_while_it_was_set_up_tries_its_baseline_once(
    defined: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = defined("sweep.search.baseline=quickstart/transformer")
    set_user_attr = optuna.Study.set_user_attr

    def killed(study: optuna.Study, key: str, value: Any) -> None:
        if key == DEFINED:
            raise KeyboardInterrupt
        set_user_attr(study, key, value)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optuna.Study, "set_user_attr", killed)
        Study(definition)
    study = Study(definition)
    assert [trial.state.name for trial in study.trials()] == ["WAITING"]
    assert study.reserve("me") == (0, {"model.dropout": 0.0})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model__dropout": "interval(0,0.5)"}, "another space (model.dropout"),
        ({"sweep__search__metrics": "[dev.chrf]"}, "other metrics (dev.bleu"),
        ({"recipe__lr": 2}, "other settings of its trials (recipe.lr"),
        ({"seeds": "[2]"}, "other settings of its trials (seeds"),
    ],
)
def test_a_study_keeps_its_space_its_metric_and_the_rest_of_its_trials(
    defined: Make, change: dict[str, Any], words: str
) -> None:
    Study(defined())
    with pytest.raises(ConfigError) as error:
        Study(defined(**change))
    assert words in str(error.value)
    assert "sweep.name=NAME" in str(error.value)


@pytest.mark.slow
def test_a_pruner_of_items_and_one_of_steps_cannot_follow_each_other(defined: Make) -> None:
    """What trials have reported to the study is keyed by sentences in one and by steps in the other."""
    Study(defined())
    Study(defined(sweep__search__pruner__kind="median"))
    with pytest.raises(ConfigError, match=r'a pruner of another kind .* "of steps" → "of items"'):
        Study(defined(sweep__search__pruner__kind="wilcoxon"))


@pytest.mark.parametrize(("task", "metric"), [("question_answering", "dev_nll"), ("parsing", "dev_ppl")])
def test_scores_of_items_cannot_prune_by_a_loss(task: str, metric: str) -> None:
    """`dev_scores` are better if higher, and the study would take the lower ones."""
    config = compose_run([f"task={task}"])
    (told,) = named(task).unprunable(metric, config, by_item=True)
    assert told.startswith(" compares scores of single dev items") and metric in told
    assert named(task).unprunable(metric, config, by_item=False) == []
    assert named("parsing").unprunable("dev.f1", compose_run(["task=parsing"]), by_item=True) == []


@pytest.mark.slow
def test_a_study_of_a_group_keeps_the_rest_of_its_trials_too(defined: Make) -> None:
    Study(defined(positions="sinusoidal,learned"))
    Study(defined("logger=none", "sweep.search.trials=9", positions="sinusoidal,learned"))  # as documented
    with pytest.raises(ConfigError, match=r"other settings of its trials \(model\.d_ff: .* → 99\)"):
        Study(defined(positions="sinusoidal,learned", model__d_ff=99))


@pytest.mark.slow
def test_a_study_does_not_continue_with_other_texts(defined: Make, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for stem in ("train", "valid", "test"):
        for language in ("en", "de"):
            (tmp_path / "corpus" / f"{stem}.{language}").write_text(f"{stem}\n" * 9, encoding="utf-8")
    files = {"data": "files", "data__root": str(tmp_path / "corpus"), "data__source": "en", "data__target": "de"}
    definition = defined(**files)
    Study(definition)
    config = definition.configs(0, {"model.dropout": 0.0})[0]
    folder = RunFolder(tmp_path / "probe" / "trial0" / "seed1").create(to_dict(config))
    inputs.remember(folder, present(config))
    folder.measurements.path.write_text('{"step": 1}\n', encoding="utf-8")
    Study(definition)
    (tmp_path / "corpus" / "valid.de").write_text("other\n" * 9, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"valid\.de in .*/corpus changed after trial0 of the study 'probe' was"):
        Study(definition)


@pytest.mark.slow
def test_a_study_does_not_continue_with_a_changed_option_of_its_space(defined: Make, config_dir: Path) -> None:
    file = config_dir / "recipe/mine.yaml"
    file.parent.mkdir()
    quick = (CONF / "recipe/quick.yaml").read_text(encoding="utf-8")
    file.write_text(quick, encoding="utf-8")
    space = {"recipe": "quick,mine", "recipe__warmup": "10,20", "model__dropout": "0.1"}
    recipes = {**space, "sweep__search__sampler": "grid"}
    study = Study(defined(**recipes, sweep__search__trials=4))
    tried = proposals(study, lambda values: 1.0, 4)
    first = next(number for number, values in enumerate(tried) if values["recipe"] == "mine")
    Study(defined(**recipes, sweep__search__trials=5))
    file.write_text(quick.replace("lr: 0.5", "lr: 2.0"), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        Study(defined(**recipes, sweep__search__trials=6))
    assert error.value.faults == [
        f"recipe.lr changed after trial{first} of the study 'probe' was started (0.5 → 2.0), so further trials could "
        "not be compared with it. Restore the former contents, or give this search another name: sweep.name=NAME."
    ]


@pytest.mark.slow
def test_a_study_with_a_trial_of_other_settings_does_not_continue(defined: Make, tmp_path: Path) -> None:
    """As made by a search that composed its trials of files that were edited meanwhile."""
    proposals(Study(defined(sweep__search__trials=3)), lambda values: 1.0, 3)
    file = tmp_path / "probe/trial1/seed1/config.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("lr: 0.5\n", "lr: 2.0\n"), encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"recipe\.lr changed after trial1 of the study 'probe' .* \(2\.0 → 0\.5\), so"
    ):
        Study(defined(sweep__search__trials=4))


@pytest.mark.slow
def test_a_study_continues_after_a_stop_between_a_trial_and_its_values(defined: Make) -> None:
    """The storage has the trial before its values, which a sampler may take seconds to choose."""
    study = Study(defined(sweep__search__trials=3))
    proposals(study, lambda values: 1.0, 1)
    study.optuna.ask()
    assert [trial.state.name for trial in Study(defined(sweep__search__trials=3)).trials()] == ["COMPLETE", "RUNNING"]


@pytest.mark.slow
def test_a_study_whose_runs_are_gone_tries_nothing_further(defined: Make, tmp_path: Path) -> None:
    """Its texts may have changed since: only the runs know theirs."""
    proposals(Study(defined()), lambda values: 1.0, 2)
    for number in range(2):
        shutil.rmtree(tmp_path / f"probe/trial{number}")
    with pytest.raises(ConfigError, match=r"has 2 finished trials, but none of their runs is in .*/probe, so"):
        Study(defined())
    assert len(Study(defined(sweep__search__trials=2)).trials()) == 2  # nothing further to try


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["{}/study.log", "sqlite:///{}/study.db"])
def test_a_study_belongs_to_the_store_in_which_it_was_started(tmp_path: Path, defined: Make, storage: str) -> None:
    shared = {"sweep__search__storage": storage.format(tmp_path / "shared")}
    first, second = (defined(**shared, runs=str(tmp_path / name)) for name in "ab")
    Study(first).reserve("alive")
    with pytest.raises(UserError) as error:
        Study(second)
    assert str(error.value) == (
        f"the study 'probe' in {first.storage} was started on {socket.gethostname()} in {first.home}, and "
        f"{second.home} does not contain its study.id: name the folder that contains its trials (runs=DIR), or give "
        "this search another name: sweep.name=NAME."
    )
    assert not second.home.exists()
    assert Study(first).running() == {0: "alive"}
    first.home.parent.rename(tmp_path / "c")  # a store that has moved is still the same
    assert Study(defined(**shared, runs=str(tmp_path / "c"))).running() == {0: "alive"}


@pytest.mark.slow
def test_of_two_stores_that_start_a_study_at_once_it_belongs_to_one(tmp_path: Path, defined: Make) -> None:
    definitions = [defined(sweep__search__storage=str(tmp_path / "study.log"), runs=str(tmp_path / n)) for n in "abcd"]
    begun: list[Study] = []
    refused: list[str] = []

    def work(definition: Definition) -> None:
        try:
            begun.append(Study(definition))
        except UserError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work, args=[definition]) for definition in definitions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (study,) = begun
    assert len(refused) == 3
    assert all(f" in {study.definition.home}, and" in text for text in refused)


@pytest.mark.slow
def test_a_study_of_an_earlier_version_belongs_to_the_store_that_has_its_trials(tmp_path: Path, defined: Make) -> None:
    shared = {"sweep__search__storage": str(tmp_path / "study.log"), "sweep__search__trials": 2}
    first, second = (defined(**shared, runs=str(tmp_path / name)) for name in "ab")
    study = Study(first)
    proposals(study, lambda values: 1.0, 2)
    study.optuna.set_user_attr(STORE, None)
    Study(second)  # nothing further is tried
    Study(first)
    with pytest.raises(
        UserError, match=r"was started on .* in .*/a/probe, and .*/b/probe does not contain its study\.id"
    ):
        Study(second)


@pytest.mark.slow
def test_a_study_may_change_its_length_its_sampler_and_its_pruner(defined: Make) -> None:
    Study(defined())
    changed = defined(sweep__search__trials=60, sweep__search__sampler="tpe", sweep__search__pruner__kind="median")
    assert Study(changed).trials() == []


@pytest.mark.slow
def test_trials_without_their_study_are_not_mixed_with_a_new_one(tmp_path: Path, defined: Make) -> None:
    (tmp_path / "probe/trial0/seed1").mkdir(parents=True)
    with pytest.raises(UserError, match="contains 1 trials"):
        Study(defined())


@pytest.mark.slow
def test_copies_of_trials_and_runs_by_hand_are_no_trials(tmp_path: Path, defined: Make) -> None:
    (tmp_path / "probe/trial0.bak/seed1").mkdir(parents=True)
    study = Study(defined())
    reserved = study.reserve("me")
    assert reserved is not None
    finish(study, reserved[0], 1.0)
    trial = tmp_path / f"probe/trial{reserved[0]}"
    shutil.copytree(trial / "seed1", trial / "seed1.bak")
    shutil.copytree(trial, tmp_path / "probe/trial7.bak")
    assert [found.state.name for found in Study(defined()).trials()] == ["COMPLETE"]


@pytest.mark.slow
def test_half_a_line_at_the_journals_end_does_not_spoil_it(defined: Make) -> None:
    definition = defined()
    proposals(Study(definition), lambda values: 1.0, 1)
    with Path(definition.storage).open("ab") as file:
        file.write(b'{"op_code": 4, "worker_')
    study = Study(definition)
    proposals(study, lambda values: 2.0, 1)
    assert [trial.value for trial in Study(definition).trials()] == [1.0, 2.0]


@pytest.mark.slow
def test_a_disk_that_was_full_for_a_while_leaves_a_journal_that_searches_go_on_with(defined: Make) -> None:
    definition = defined()
    study = Study(definition)
    number, _ = study.reserve("me") or (0, {})
    (config,) = definition.configs(number, study.trials()[number].params)
    reporter, journal = Reporter(config), Path(definition.storage)
    whole = journal.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, limits[1]))  # of a line, the disk takes 20 bytes
    try:
        reporter.report({1: 0.5}, ask=False)
        assert reporter.study is None, "the disk must refuse the report"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.read_bytes() == whole
    finish(study, number, 1.0)
    assert [trial.value for trial in study.trials()] == [trial.value for trial in Study(definition).trials()] == [1.0]


@pytest.mark.slow
def test_a_search_goes_on_after_half_a_line_of_a_process_that_was_killed(defined: Make) -> None:
    definition = defined()
    study = Study(definition)
    assert study.reserve("me")
    with Path(definition.storage).open("ab") as file:
        file.write(b'{"op_code": 4, "worker_')
    finish(study, 0, 1.0)
    assert [trial.value for trial in study.trials()] == [trial.value for trial in Study(definition).trials()] == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"SQLite format 3\0 no line ends here", b"my notes\non two lines", b"\0"])
def test_a_file_that_is_no_journal_is_left_unchanged(tmp_path: Path, defined: Make, content: bytes) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"study\.db is not a journal of Optuna, .*=sqlite:///.*study\.db\.$"):
        Study(defined(sweep__search__storage=str(path)))
    assert path.read_bytes() == content


@pytest.mark.slow
@pytest.mark.parametrize("line", [b'{"op_code":99}', b'{"op_code":6}', b'{"op_code":', b"5", b"[]", b"\xff"])
def test_a_damaged_line_of_a_journal_is_told_in_a_sentence(defined: Make, line: bytes) -> None:
    definition = defined()
    proposals(Study(definition), lambda _: 1.0, 1)
    path = Path(definition.storage)
    path.write_bytes(whole := path.read_bytes() + line + b"\n")
    with pytest.raises(UserError, match=r"the study in .* cannot be opened \(.*\): restore that file, or name another"):
        Study(definition)
    assert path.read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", ["os.mkdir", "filelock.FileLock.acquire"])
def test_a_search_in_a_store_that_cannot_be_written_is_told_in_a_sentence(
    defined: Make, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    definition = defined()
    monkeypatch.setattr(name, refuse)
    with pytest.raises(UserError, match=r"Cannot write .*probe: Read-only file system; choose .* runs=DIR\.$"):
        Study(definition)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_disk_that_fills_up_during_a_search_is_told_in_a_sentence(
    tmp_path: Path, defined: Make, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    storage = {} if kind == "journal" else {"sweep__search__storage": f"sqlite:///{tmp_path}/s.db"}
    study = Study(defined(**storage))
    assert study.reserve("me")

    def refuse(*_: Any, **__: Any) -> None:
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if kind == "sqlite":
            raise optuna.exceptions.StorageInternalError("An exception is raised during the commit.") from error
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(study.optuna._storage, "get_all_trials", refuse)
        with pytest.raises(UserError, match=r"the study in .* cannot be read \(.*No space left.*\): repair"):
            study.trials()
    name = "append_logs" if kind == "journal" else "set_trial_state_values"
    backend = study.optuna._storage
    owner = backend._backend if kind == "journal" else type(backend._backend)
    monkeypatch.setattr(owner, name, refuse)
    with pytest.raises(
        UserError, match=r"the study in .* cannot be written \(.*No space left.*\): repair .* same command"
    ):
        finish(study, 0, 1.0)
    monkeypatch.undo()
    finish(Study(defined(**storage)), 0, 1.0)


@pytest.mark.slow
def test_a_closed_trial_stays_as_it_is(defined: Make) -> None:
    study = Study(defined())
    study.reserve("me")
    finish(study, 0, 3.0)
    study.tell(0, "FAIL", reason="late")
    assert (study.trials()[0].value, study.trials()[0].user_attrs.get("reason")) == (3.0, None)


@pytest.mark.slow
def test_a_trial_is_taken_over_once_with_the_same_values(defined: Make) -> None:
    study = Study(defined())
    reserved = study.reserve("gone")
    assert reserved is not None
    assert Study(defined()).adopt(0, "gone", "second") == reserved[1]
    assert Study(defined()).adopt(0, "gone", "third") is None
    assert study.running() == {0: "second"}


@pytest.mark.slow
def test_any_optuna_program_reads_the_study(defined: Make) -> None:
    definition = defined(
        sweep__search__metrics="[dev.bleu,parameters]", sweep__search__sampler="nsgaii", model__N="range(1,5)"
    )
    study = Study(definition)
    for _ in range(6):
        number, values = study.reserve("me") or (0, {})
        finish(study, number, 40 - values["model.dropout"], values["model.N"])
    backend = optuna.storages.journal.JournalFileBackend(definition.storage)
    loaded = optuna.load_study(study_name="probe", storage=optuna.storages.JournalStorage(backend))
    assert [direction.name for direction in loaded.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert loaded.metric_names == ["dev.bleu", "parameters"]
    assert len(loaded.trials) == 6


@pytest.mark.slow
@pytest.mark.parametrize(("apart", "told"), [(0.0, False), (1.0, True)])
def test_keys_have_no_importance_if_all_trials_score_the_same(
    apart: float, told: bool, defined: Callable[..., Definition], capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study(defined("model.h=2,4", sweep__search__trials=12))
    for number in range(12):
        study.reserve("me")
        study.tell(number, "COMPLETE", [apart * number])
    summary(study)
    assert ("Importance of keys (PED-ANOVA): " in capsys.readouterr().out) == told
