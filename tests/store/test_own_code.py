"""The module of a user's own class is an input of a run: kept with it, and compared when the run is used again."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from variations.commands import run
from variations.configuration import own_classes
from variations.configuration.compose import compose_run, to_dict
from variations.configuration.own_classes import is_dotted
from variations.configuration.rules import CLASS_NAME
from variations.store import own_code
from variations.store.inputs import recorded
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.system.errors import UserError
from variations.tables.records import record
from variations.training.weights import load_network

CODE = """
import torch
from variations.models.transformer.attention import Heads


class Scaled(Heads):
    def attend(self, q, seen, mask, *, causal):
        return super().attend(2 * q, seen, mask, causal=causal)
"""


def edit(module: Path, code: str) -> None:
    """Write a module's file, and let this process know it as little as a new one would."""
    module.write_text(code, encoding="utf-8")
    sys.modules.pop(module.stem, None)
    own_classes._first_seen.clear()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a module with an attention class."""
    place = tmp_path / "code" / "their_attention.py"
    place.parent.mkdir()
    place.write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(place.parent)
    yield place
    sys.modules.pop("their_attention", None)


@pytest.fixture
def config(module: Path, tmp_path: Path) -> Any:
    return compose_run(
        [
            "model.attention=their_attention:Scaled", "model.d_model=16", "model.d_ff=32", "model.h=2", "model.N=1",
            "recipe.batch_tokens=256", "trainer.max_steps=2", "trainer.val_bleu=0", "trainer.progress=false",
            "trainer.threads=1", "trainer.limit_test=2", "decode.beam=1", "logger=none", "sweep.name=mine",
            "variation.row=scaled", f"runs={tmp_path / 'runs'}",
        ]
    )  # fmt: skip


def test_inputs_of_a_run_may_be_on_another_machine(tmp_path: Path) -> None:
    """A login node need not have the texts of a sweep's runs, and downloads none to compare them."""
    babi = ["task=question_answering", "data=babi", f"data.cache={tmp_path / 'cache'}"]
    assert not own_code.inputs_here(compose_run(babi))
    for words in (babi, ["data=files"], ["task=parsing"]):
        assert not own_code.inputs_here(compose_run([*words, f"data.root={tmp_path / 'nowhere'}"]))
        assert own_code.inputs_here(compose_run([*words, f"data.root={tmp_path}"]))
    assert own_code.inputs_here(compose_run([]))


def test_modules_are_those_of_classes_that_are_not_installed_with_us(module: Path) -> None:
    named = {
        "model": {"kind": "transformer", "attention": "their_attention:Scaled"},
        "positions": {"kind": "nobody.here:Code"},
        "callbacks": {
            "a": {"_target_": "their_attention.Stop"},
            "b": {"_target_": "pytorch_lightning.callbacks.Timer"},
        },
        "data": {"root": "their_attention:Scaled"},
    }
    assert own_code.modules(named) == {"their_attention.py": module}


@pytest.mark.parametrize("name", ["netze.öffner", "netze.2neu", "übung"])
def test_names_of_classes_and_modules_may_have_letters_of_all_scripts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name that the configuration accepts is that of a module that the run keeps."""
    file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(exist_ok=True)
    file.write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert CLASS_NAME.fullmatch(f"{name}:Übung")
    kept = {f"{name}.py": file}
    assert own_code.modules({"model": {"kind": f"{name}:Übung"}}) == kept
    callback = {"callbacks": {"k": {"_target_": f"{name}.Übung"}}}
    accepted = is_dotted(f"{name}.Übung")
    assert accepted == (name != "netze.2neu")  # hydra refuses such a name
    assert own_code.modules(callback) == (kept if accepted else {})


@pytest.mark.parametrize(
    "settings",
    [
        {"_target_": "their_attention.Outer.Stop"},
        {"_target_": "their_package.Stop"},
        {"_target_": "pytorch_lightning.callbacks.Timer", "inner": [{"_target_": "their_attention.Part"}]},
        {
            "_target_": "pytorch_lightning.callbacks.Timer",
            "kind": {"_target_": "hydra.utils.get_class", "path": "their_attention.K"},
        },
        {
            "_target_": "pytorch_lightning.callbacks.Timer",
            "kind": {"_target_": "hydra.utils.get_method", "_args_": ["their_attention.K"]},
        },
    ],
)
def test_a_module_is_found_wherever_the_settings_of_a_callback_name_it(module: Path, settings: dict[str, Any]) -> None:
    package = module.parent / "their_package" / "__init__.py"
    package.parent.mkdir()
    package.write_text("")
    assert list(own_code.modules({"callbacks": {"a": settings}}).values()) in ([module], [package])
    assert "their_attention" not in sys.modules


@pytest.mark.slow
def test_a_class_that_was_edited_after_its_import_is_not_trained_under_its_new_text(config: Any, module: Path) -> None:
    """As in a notebook: the second run would train the former class, and store the text of the present one."""
    done = RunFolder(run.execute(config))
    module.write_text(CODE.replace("2 * q", "3 * q"), encoding="utf-8")
    again = replace(config, name="again")
    again.variation = replace(config.variation, row="again")
    with pytest.raises(UserError, match=r"their_attention\.py changed after this process imported it, so the former"):
        run.execute(again)
    assert not run_folder(again).exists()
    run.execute(config)  # a finished run is left alone
    assert (done.path / module.name).read_text(encoding="utf-8") == CODE
    edit(module, module.read_text(encoding="utf-8"))
    assert (RunFolder(run.execute(again)).path / module.name).read_text(encoding="utf-8") == module.read_text()


@pytest.mark.slow
def test_the_module_that_defines_a_class_is_an_input_even_if_another_one_is_named(config: Any, module: Path) -> None:
    named = module.with_name("their_names.py")
    named.write_text("from their_attention import Scaled\n", encoding="utf-8")
    sys.modules.pop("their_names", None)
    config.model.attention = "their_names:Scaled"
    folder = RunFolder(run.execute(config))
    assert {"their_names.py", "their_attention.py"} <= recorded(folder).keys()
    assert own_code.changed_inputs(config, folder) == []
    edit(module, CODE.replace("2 * q", "3 * q"))
    (told,) = own_code.changed_inputs(config, folder)
    assert told.startswith(f"{module} changed after this run was started")
    sys.modules.pop("their_names", None)


@pytest.mark.slow
def test_an_edited_class_is_noticed(
    config: Any, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(run.execute(config))
    assert "test BLEU " in capsys.readouterr().err
    assert (folder.path / "their_attention.py").read_text(encoding="utf-8") == CODE
    assert own_code.changed_inputs(config, folder) == []
    assert own_code.edited(recorded(folder)) == []
    assert (folder.result() or {})["remarks"] == ["FLOPs are counted with dot-product attention in place of Scaled."]

    edit(module, CODE.replace("2 * q", "3 * q"))
    run.execute(config)  # finished already
    told = capsys.readouterr().err
    assert own_code.edited(recorded(folder)) == ["their_attention.py"]
    assert f"warning: {module} changed after this run was started with the former code" in told
    with pytest.raises(UserError, match=r"cannot use the weights of .*their_attention\.py changed after this run was"):
        load_network(folder.path)

    result = folder.result() or {}
    folder.write_result({**result, "scores": 5})
    with pytest.raises(UserError, match=r"seed1 is damaged .*: restore result\.json, or delete it to test"):
        run.execute(config)
    folder.set_status("interrupted")
    (folder.path / "result.json").unlink()
    with pytest.raises(UserError, match=r"cannot continue: .*their_attention\.py changed after this run was started"):
        run.execute(config)
    edit(module, CODE)
    run.execute(config)
    assert folder.finished()


@pytest.mark.slow
def test_a_class_may_be_mended_while_nothing_is_trained_that_would_be_continued(config: Any, module: Path) -> None:
    start = "    def attend(self, q, seen, mask, *, causal):\n"
    fault = "        Scaled.calls += self.training and torch.is_grad_enabled()\n        1 / (Scaled.calls < 20)\n"
    broken = CODE.replace(start, f"    calls = 0\n{start}{fault}")
    edit(module, broken)
    config.trainer.max_steps, config.trainer.log_every, config.trainer.val_every = 30, 1, 30
    with pytest.raises(ZeroDivisionError):
        run.execute(config)
    folder = RunFolder(run_folder(config))
    assert folder.state() == "failed" and folder.measurements.read() and not folder.has_checkpoint()

    sys.modules.pop("their_attention")
    edit(module, CODE)
    run.execute(config)
    assert folder.finished()
    assert [line["step"] for line in folder.measurements.read()] == list(range(1, 31))
    assert (folder.path / "their_attention.py").read_text(encoding="utf-8") == CODE
    assert own_code.changed_inputs(config, folder) == []


@pytest.mark.slow
def test_the_code_goes_with_the_record(config: Any, tmp_path: Path) -> None:
    from variations.configuration.schema import SweepConfig
    from variations.store.rows import define

    run.execute(config)
    store, records = tmp_path / "runs", tmp_path / "records"
    done = record(define(SweepConfig(name="mine", rows=["scaled"]), store=store), store, records)
    assert list(done.written) == ["mine/scaled/seed1"]
    assert (records / "mine" / "scaled" / "seed1" / "their_attention.py").read_text(encoding="utf-8") == CODE
    assert to_dict(config)["model"]["attention"] == "their_attention:Scaled"
