"""TensorBoard: a run's event files, read back with TensorBoard's own reader."""

from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.tasks.base import Samples
from variations.tasks.translation.config import TranslationConfig
from variations.training.tracking.final import Final

pytestmark = pytest.mark.slow


def lines(first: int, last: int, slope: float = 0.5) -> list[dict[str, Any]]:
    """Return measurements in the form of metrics.jsonl."""
    return [
        {
            "step": step,
            "seconds": 2.0 * step,
            "train/loss": 9.0 - slope * step,
            "dev/ppl": None,
            "branch/encoder.0.self.kappa": [0.25, 0.75],
        }
        for step in range(first, last + 1)
    ]


@pytest.fixture
def run(tmp_path: Path) -> tuple[TranslationConfig, RunFolder]:
    """A row with a frozen configuration that has not started."""
    config = compose_run(["model=weighted", "model.h=2", f"runs={tmp_path}", "logger=tensorboard"])
    return config, RunFolder(tmp_path / "narrow" / "seed1").create(to_dict(config))


def read(folder: RunFolder) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"scalars": 0, "histograms": 0})
    return found.Reload()


def test_a_continued_run_shows_each_step_once_and_with_the_later_value(
    run: tuple[TranslationConfig, RunFolder],
) -> None:
    from variations.training.tracking.event_files import EventFiles

    killed = EventFiles(*run)
    killed.start([])
    for line in lines(1, 15):
        killed.line(line)
    killed.writer.flush()  # killed here
    continued = EventFiles(*run)
    continued.start(lines(1, 10))
    for line in lines(11, 30, slope=0.25):
        continued.line(line)
    continued.close(0)
    events = read(run[1]).Scalars("train/loss")
    assert [event.step for event in events] == list(range(1, 31))
    assert events[9].value == pytest.approx(4.0)
    assert events[11].value == pytest.approx(6.0)
    assert events[29].wall_time - events[0].wall_time == pytest.approx(58.0, abs=1e-3)


def test_branch_weights_are_histograms_and_what_is_not_finite_is_left_out(
    run: tuple[TranslationConfig, RunFolder],
) -> None:
    from variations.training.tracking.event_files import EventFiles

    files = EventFiles(*run)
    files.start([])
    for line in lines(1, 3):
        files.line(line)
    files.line({"step": 4, "train/loss": float("nan")})
    files.close(0)
    found = read(run[1])
    assert found.Tags()["histograms"] == ["branch/encoder.0.self.kappa"]
    assert "dev/ppl" not in found.Tags()["scalars"]
    assert [event.step for event in found.Scalars("train/loss")] == [1, 2, 3]
    assert found.Histograms("branch/encoder.0.self.kappa")[0].histogram_value.num == 2


def test_hparams_hold_what_the_row_changes_and_its_final_scores(
    run: tuple[TranslationConfig, RunFolder], tmp_path: Path
) -> None:
    from PIL import Image
    from tensorboard.plugins.hparams import plugin_data_pb2

    from variations.training.tracking.event_files import EventFiles

    picture = tmp_path / "attention-cross.png"
    Image.new("RGB", (8, 6), "white").save(picture)
    scores = {"test": {"bleu": {"value": 12.5}, "chrf": {"value": 30.0}}}
    result = {"steps": 30, "parameters": 1000, "scores": scores, "loss": {"dev_nll": 2.0}}
    files = EventFiles(*run)
    files.start(lines(1, 30))
    files.end(
        Final(
            result,
            {"test": Samples(("source", "reference", "hypothesis", "gleu"), [("a | b", "c", "<d>", 50.0)])},
            {"cross": picture},
        )
    )
    files.close(0)
    found = read(run[1])
    plugin = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    told = plugin_data_pb2.HParamsPluginData.FromString(plugin).session_start_info.hparams
    assert told["row"].string_value == "narrow"
    assert told["seed"].number_value == 1
    assert told["model.h"].number_value == 2
    assert told["model.kind"].string_value == "weighted"
    assert "runs" not in told
    assert [event.value for event in found.Scalars("final/test/bleu")] == [12.5]
    assert [event.value for event in found.Scalars("final/dev_nll")] == [2.0]
    experiment = found.summary_metadata["_hparams_/experiment"].plugin_data.content
    metrics = plugin_data_pb2.HParamsPluginData.FromString(experiment).experiment.metric_infos
    assert sorted(metric.name.tag for metric in metrics) == ["final/dev_nll", "final/test/bleu", "final/test/chrf"]
    [text] = found.Tensors("samples/test/text_summary")
    assert b"a \\| b | c | &lt;d>" in text.tensor_proto.string_val[0]
    assert found.Images("attention/cross")[0].width == 8
