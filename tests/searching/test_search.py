"""A search from its first trial to its last, with quick processes as runs."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from variations.searching.definition import Definition
from variations.searching.search import Search
from variations.searching.show import figure, summary
from variations.searching.study import Study
from variations.store.atomic import read_json, write_json
from variations.store.lease import Lease
from variations.store.run_folder import RunFolder

from .conftest import QuickPool, finish

Make = Callable[..., Definition]
SHORT = {"sweep__lease_seconds": 10}  # long enough for a process to start on a busy machine


def states(definition: Definition) -> list[str]:
    return [trial.state.name for trial in Study(definition).trials()]


@pytest.mark.slow
def test_trials_run_side_by_side_and_the_best_is_told(
    defined: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition, pool = defined("sweep.search.baseline=quickstart/transformer", **SHORT), QuickPool(2)
    search = Search(definition, pool)
    search.run()
    assert pool.most == 2
    assert states(definition) == ["COMPLETE"] * 6
    trials = search.study.trials()
    assert trials[0].value == pytest.approx(40 - 100 * 0.2**2 + 0.001)
    folders = sorted(path.parent.name for path in (tmp_path / "probe").glob("trial*/seed1"))
    assert folders == [f"trial{n}" for n in range(6)]
    frozen = RunFolder(tmp_path / "probe/trial3/seed1").config()
    assert frozen["model"]["dropout"] == trials[3].params["model.dropout"]
    summary(search.study)
    told = capsys.readouterr().out
    best = max(trials, key=lambda trial: trial.value)
    assert told.split("dev BLEU")[1].split("│")[1].split()[0] == str(best.number)
    assert "6 finished; 6 of 6 trials" in told
    assert f"optuna-dashboard {tmp_path}/probe/study.log" in told.replace("\n", "")
    shown = f"Table: python src/table.py sweep.name=probe sweep.metric=dev.bleu runs={tmp_path}"
    assert shown in told.splitlines()


def test_figures_have_as_many_digits_as_can_be_read() -> None:
    found = [figure(value) for value in (0.01234, 0.0, 25.6789, 1234.5, 21_977_844_993_024.0, 8.5e36)]
    assert found == ["0.0123", "0.00", "25.68", "1,234", "21,977,844,993,024", "8.5e+36"]


@pytest.mark.slow
def test_the_total_counts_over_two_invocations(defined: Make, tmp_path: Path) -> None:
    Search(defined(sweep__search__trials=2, **SHORT), QuickPool()).run()
    Search(defined(sweep__search__trials=5, **SHORT), QuickPool()).run()
    pool = QuickPool()
    Search(defined(sweep__search__trials=5, **SHORT), pool).run()
    assert pool.started == []
    assert len((tmp_path / "probe/order.txt").read_text().splitlines()) == 5


@pytest.mark.slow
def test_the_best_of_an_earlier_invocation_is_still_the_best(defined: Make, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(defined(sweep__search__trials=1, **SHORT))
    study.reserve("me")
    finish(study, 0, 99.0)
    Search(defined(sweep__search__trials=2, **SHORT), QuickPool()).run()
    assert "(best 99.00)" in capsys.readouterr().err


@pytest.mark.slow
def test_two_searches_at_once_share_the_total(defined: Make, tmp_path: Path) -> None:
    definition = defined(sweep__search__trials=8, **SHORT)
    searches = [Search(definition, QuickPool()) for _ in range(2)]
    threads = [threading.Thread(target=search.run) for search in searches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = (tmp_path / "probe/order.txt").read_text().splitlines()
    assert sorted(done) == [f"trial{n}/seed1" for n in range(8)]
    assert states(definition) == ["COMPLETE"] * 8


@pytest.mark.slow
def test_runs_of_a_trial_with_the_values_of_a_finished_one_may_be_copied(defined: Make, tmp_path: Path) -> None:
    definition = defined(sweep__search__sampler="random", sweep__search__trials=4, model__dropout="0.1,0.2", **SHORT)
    search = Search(definition, QuickPool(1))
    search.run()
    params = [trial.params for trial in search.study.trials()]
    shared = [RunFolder(tmp_path / f"probe/trial{n}/seed1").config()["sweep"]["shares"] for n in range(4)]
    assert shared == [["probe"] if params[n] in params[:n] else [] for n in range(4)]
    assert ["probe"] in shared  # four trials of two values


@pytest.mark.slow
def test_every_seed_of_such_a_trial_may_be_copied_once(defined: Make, tmp_path: Path) -> None:
    definition = defined(
        "seeds=[1,2]", sweep__search__sampler="random", sweep__search__trials=3, model__dropout="0.1,0.2", **SHORT
    )
    Search(definition, QuickPool(1)).run()
    shared = [RunFolder(path).config()["sweep"]["shares"] for path in (tmp_path / "probe").glob("trial*/seed*")]
    assert len(shared) == 6 and ["probe"] in shared and all(found in ([], ["probe"]) for found in shared)


@pytest.mark.slow
def test_a_trial_of_other_texts_is_not_ranked_and_ends_the_search(defined: Make, tmp_path: Path) -> None:
    definition = defined(
        sweep__search__sampler="grid", sweep__search__trials="null", model__dropout="0.1,0.2,0.3", **SHORT
    )
    search = Search(definition, QuickPool(1))
    (tmp_path / "probe").mkdir(exist_ok=True)
    (tmp_path / "probe" / "edited").touch()
    search.run()
    assert [trial.state.name for trial in search.study.trials()] == ["COMPLETE", "FAIL"]
    why = "train.de changed after trial0 was started, with which it could not be compared; nothing further is tried"
    assert search.study.trials()[1].user_attrs["reason"] == why


@pytest.mark.slow
def test_a_killed_and_a_broken_trial_are_failed_and_the_search_goes_on(
    defined: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = defined(
        sweep__search__sampler="grid", sweep__search__trials="null", model__dropout="0.1", model__N="4,5,6", **SHORT
    )
    search = Search(definition, QuickPool())
    search.run()
    found = {trial.params["model.N"]: trial for trial in search.study.trials()}
    assert {n: trial.state.name for n, trial in found.items()} == {4: "COMPLETE", 5: "FAIL", 6: "FAIL"}
    assert found[5].user_attrs["reason"] == "broken on purpose"
    assert "-9" in found[6].user_attrs["reason"]
    summary(search.study)
    told = capsys.readouterr().out
    assert "1 finished, 2 failed; 3 of 3 trials" in told
    assert f"failed trial{found[5].number}: broken on purpose" in told
    assert f"Trials: {definition.home}\n" in told
    shutil.move(definition.home / f"trial{found[4].number}", definition.home.parent)
    summary(search.study)
    assert f"{definition.home}, without the runs of {found[4].number}, which another" in capsys.readouterr().out


@pytest.mark.slow
def test_trials_of_a_search_that_is_gone_are_told_or_go_on(defined: Make, tmp_path: Path) -> None:
    """Of four open trials, one finished, one failed, one was interrupted during its run, and one had not started."""
    definition = defined(sweep__search__trials=4, **SHORT)
    study = Study(definition)
    place = definition.home / ".searches/gone"
    lease = Lease.claim(place, None, "running")
    assert lease is not None
    lease.release()
    for state in ("finished", "failed", "running", None):
        number, values = study.reserve("gone") or (0, {})
        (config,) = definition.configs(number, values)
        from variations.configuration.compose import to_dict
        from variations.store.naming import run_folder

        if state is None:
            continue
        folder = RunFolder(run_folder(config)).create(to_dict(config))
        folder.set_status(state, "out of luck" if state == "failed" else None, pid=2**22 - 1)
        folder.write_result({"scores": {"dev": {"bleu": {"value": 12.5}}}})
    pool = QuickPool()
    Search(definition, pool).run()
    trials = Study(definition).trials()
    assert [trial.state.name for trial in trials] == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert trials[0].value == 12.5
    assert trials[1].user_attrs["reason"] == "out of luck"
    assert sorted(pool.started) == ["trial2-seed1", "trial3-seed1"]


@pytest.mark.slow
def test_a_finished_trial_whose_result_is_lost_is_continued(
    defined: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged result counts as lost. The study keeps its values, and a trial that is whole is left alone."""
    definition = defined(sweep__search__trials=3, **SHORT)
    Search(definition, QuickPool()).run()
    before = [trial.value for trial in Study(definition).trials()]
    results = [tmp_path / f"probe/trial{number}/seed1/result.json" for number in range(3)]
    contents = [path.read_bytes() for path in results]
    results[0].unlink()
    results[2].write_text("{")
    pool = QuickPool()
    Search(definition, pool).run()
    assert sorted(pool.started) == ["trial0-seed1", "trial2-seed1"]
    assert [path.read_bytes() for path in results] == contents
    assert [trial.value for trial in Study(definition).trials()] == before
    assert "trial 0: a result of its runs is missing, so they are continued." in capsys.readouterr().err


@pytest.mark.slow
def test_a_finished_trial_is_left_alone_whatever_else_is_in_its_folder(
    defined: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a packed copy of a run, or a further attempt that was given up."""
    definition = defined(sweep__search__trials=1, **SHORT)
    Search(definition, QuickPool()).run()
    trial = tmp_path / "probe/trial0"
    (trial / "seed1.tar.gz").touch()
    RunFolder(trial / "seed1-attempt2").create(RunFolder(trial / "seed1").config())
    pool = QuickPool()
    Search(definition, pool).run()
    assert pool.started == []
    assert "is missing" not in capsys.readouterr().err


@pytest.mark.slow
def test_trials_of_a_search_that_lives_are_left_alone(defined: Make) -> None:
    definition = defined(sweep__search__trials=2, **SHORT)
    study = Study(definition)
    lease = Lease.claim(definition.home / ".searches/alive", None, "running")
    assert lease is not None
    study.reserve("alive")
    pool = QuickPool()
    Search(definition, pool).run()
    assert pool.started == ["trial1-seed1"]
    assert states(definition) == ["RUNNING", "COMPLETE"]


@pytest.mark.slow
def test_trials_of_a_search_on_another_machine_go_on_when_it_has_been_silent_for_long_enough(
    defined: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a reboot, too, nobody can know whether the process still runs; all trials are begun, so nothing else is."""
    definition = defined(sweep__search__trials=2, sweep__lease_seconds=3)
    study = Study(definition)
    abandoned(definition, "gone")
    assert study.reserve("gone") and study.reserve("gone")
    pool = QuickPool()
    Search(definition, pool).run()
    assert sorted(pool.started) == ["trial0-seed1", "trial1-seed1"]
    assert states(definition) == ["COMPLETE"] * 2
    assert capsys.readouterr().err.count("Waiting up to 3 s to see whether") == 1


@pytest.mark.slow
def test_a_search_does_not_wait_for_trials_of_one_that_lives_on_another_machine(defined: Make) -> None:
    definition = defined(sweep__search__trials=1, sweep__lease_seconds=60)
    study = Study(definition)
    lease = abandoned(definition, "elsewhere")
    study.reserve("elsewhere")
    search = Search(definition, QuickPool())
    search.show.say = lambda text: write_json(lease.path, {**read_json(lease.path), "beat": 1})  # type: ignore[method-assign]
    began = time.monotonic()
    search.run()
    assert time.monotonic() - began < 30
    assert states(definition) == ["RUNNING"]


def abandoned(definition: Definition, owner: str) -> Lease:
    """The lease of a search process of another machine, which nobody renews."""
    lease = Lease.claim(
        definition.home / ".searches" / owner, None, "running", seconds=definition.base.sweep.lease_seconds
    )
    assert lease is not None
    write_json(lease.path, {**read_json(lease.path), "place": "0" * 12})
    return lease


@pytest.mark.slow
def test_ctrl_c_leaves_trials_open_and_the_same_line_goes_on_with_them(defined: Make, tmp_path: Path) -> None:
    definition = defined(sweep__search__trials=3, **SHORT)
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/hold").touch()
    search = Search(definition, QuickPool())
    step, deadline = search.step, time.monotonic() + 60

    def until_running() -> None:
        step()
        order = tmp_path / "probe/order.txt"
        if (order.exists() and len(order.read_text().splitlines()) == 2) or time.monotonic() > deadline:
            raise KeyboardInterrupt

    search.step = until_running  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert states(definition) == ["RUNNING", "RUNNING"]
    (tmp_path / "probe/hold").unlink()
    Search(definition, QuickPool()).run()
    assert states(definition) == ["COMPLETE"] * 3


@pytest.mark.slow
def test_a_defect_of_the_search_does_not_kill_its_trials_unsaved(defined: Make, tmp_path: Path) -> None:
    definition = defined(sweep__search__trials=3, **SHORT)
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/hold").touch()
    search = Search(definition, QuickPool())
    stopped: list[bool] = []
    stop, step = search.control.stop, search.step

    def once_running() -> None:
        step()
        if search.trials:
            raise RuntimeError("broken on purpose")

    search.step = once_running  # type: ignore[method-assign]
    search.control.stop = lambda: (stopped.append(True), stop())[1]  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(RuntimeError, match="broken on purpose"):
        search.run()
    assert stopped == [True] and not search.pool.ended()
    (tmp_path / "probe/hold").unlink()
    Search(definition, QuickPool()).run()
    assert states(definition) == ["COMPLETE"] * 3


@pytest.mark.slow
def test_a_pruned_run_is_a_pruned_trial(defined: Make, tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/prune").touch()
    definition = defined(
        sweep__search__sampler="grid", sweep__search__trials="null", model__dropout="0.0,0.2,0.3", **SHORT
    )
    search = Search(definition, QuickPool())
    search.run()
    found = {trial.params["model.dropout"]: trial.state.name for trial in search.study.trials()}
    assert found == {0.0: "PRUNED", 0.2: "COMPLETE", 0.3: "COMPLETE"}


@pytest.mark.slow
def test_a_trials_value_is_the_mean_over_its_seeds(defined: Make, tmp_path: Path) -> None:
    definition = defined(sweep__search__trials=1, model__dropout="0.2,0.3", seeds="[1,5]", **SHORT)
    search = Search(definition, QuickPool())
    search.run()
    dropout = search.study.trials()[0].params["model.dropout"]
    assert search.study.trials()[0].value == pytest.approx(40 - 100 * (dropout - 0.2) ** 2 + 0.003)
    assert sorted(path.name for path in (tmp_path / "probe/trial0").iterdir()) == ["seed1", "seed5"]


@pytest.mark.slow
def test_values_that_do_not_go_together_are_a_failed_trial(defined: Make) -> None:
    definition = defined(
        sweep__search__sampler="grid",
        sweep__search__trials="null",
        model__dropout="0.1",
        model__d_model="32,48",
        model__h="4,16,32",
        **SHORT,
    )
    search = Search(definition, QuickPool())
    search.run()
    found = {(t.params["model.d_model"], t.params["model.h"]): t for t in search.study.trials()}
    assert found[(48, 32)].state.name == "FAIL"
    assert "model.h=32 does not divide model.d_model=48" in found[(48, 32)].user_attrs["reason"]
    assert sum(trial.state.name == "COMPLETE" for trial in found.values()) == 5


@pytest.mark.slow
def test_nsga2_ends_with_the_pareto_front(defined: Make, capsys: pytest.CaptureFixture[str]) -> None:
    definition = defined(
        sweep__search__sampler="nsgaii",
        sweep__search__population=4,
        sweep__search__trials=12,
        sweep__search__metrics="[dev.bleu,parameters]",
        model__N="range(1,5)",
        **SHORT,
    )
    search = Search(definition, QuickPool())
    search.run()
    points = {trial.number: trial.values for trial in search.study.trials()}
    front = {
        number
        for number, (bleu, size) in points.items()
        if not any((b >= bleu and s <= size and (b, s) != (bleu, size)) for b, s in points.values())
    }
    assert {trial.number for trial in search.study.optuna.best_trials} == front
    summary(search.study)
    told = capsys.readouterr().out
    assert "Pareto front" in told
    assert sum(line.startswith("│") for line in told.splitlines()) == len(front)


def searched(defined: Make) -> tuple[Search, RunFolder]:
    """A search of three trials that has ended, and the run of the second."""
    definition = defined(sweep__search__trials=3, **SHORT)
    search = Search(definition, QuickPool())
    search.run()
    return search, RunFolder(definition.home / "trial1/seed1")


@pytest.mark.slow
def test_the_summary_says_which_of_the_best_trials_were_ended_early(
    defined: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    search, folder = searched(defined)
    folder.write_result({**(folder.result() or {}), "stopped": "max_minutes", "steps": 3})
    summary(search.study)
    last = folder.config()["trainer"]["max_steps"]
    told = [line for line in capsys.readouterr().out.splitlines() if "was ended" in line]
    assert told == [f"trial1: training was ended at step 3 of {last:,} by trainer.max_minutes"]


@pytest.mark.slow
def test_the_summary_says_which_of_the_best_trials_have_networks_that_are_not_trained(
    defined: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    search, folder = searched(defined)
    for step, nll in ((10, 5.0), (20, 4.0), (30, 3.0), (40, 2.0), (50, 1.0)):
        folder.measurements.append({"step": step, "dev/nll": nll})
    folder.write_result({key: value for key, value in (folder.result() or {}).items() if "sha256" not in key})
    summary(search.study)
    told = [line for line in capsys.readouterr().out.splitlines() if "not trained" in line]
    # From 80 % of the steps to the end, the perplexity fell from e^2 to e^1.
    assert told == ["trial1: not trained: dev perplexity fell by 63.2 % in the last fifth of its steps"]
