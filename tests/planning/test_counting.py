"""Memory counted from shapes alone, against memory that real tensors keep."""

import pytest
import torch

from variations.configuration.compose import compose_run
from variations.models import build, count_parameters
from variations.models.loss import Smoothing, cross_entropy
from variations.planning.formats import PlanLine
from variations.planning.rows import Planned
from variations.store.rows import RowDefinition
from variations.tasks.counting import state_bytes
from variations.tasks.sequences.counting import activation_bytes
from variations.tasks.translation.task import TASK

DOUBLE = ["trainer.precision=64-true"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [[], ["model=weighted"], ["positions=learned", "recipe.ema=0.9"], ["model=additive"], DOUBLE]
)
def test_counted_activations_are_those_that_torch_keeps(words: list[str]) -> None:
    config = compose_run([*words, "model.dropout=0.1"])
    torch.manual_seed(1)
    network = build(config, 200).train()
    network, width = (network.double(), 8) if words == DOUBLE else (network, 4)
    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    kept: dict[int, tuple[int, torch.Tensor]] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = (storage.nbytes(), tensor)
        return tensor

    source, target = torch.full((7, 11), 5), torch.full((7, 7), 6)  # more pairs than counted
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = network(source, target)
        cross_entropy(hidden, network.output, target, Smoothing(0.1))
    found = activation_bytes(config, 200, 7, 11, 7)
    d = config.model.d_model
    logits = width * 2 * 49 * 200  # held only while the loss is computed
    assert found - logits == pytest.approx(sum(size for size, _ in kept.values()), abs=width * 49 * d)


@pytest.mark.slow
def test_weights_their_gradients_and_two_moments() -> None:
    config = compose_run([])
    parameters = count_parameters(build(config, 100))
    assert state_bytes(config, parameters) == 16 * parameters
    assert state_bytes(compose_run(["recipe.ema=0.9"]), parameters) == 20 * parameters
    assert state_bytes(compose_run(["trainer.precision=64-true"]), parameters) == 32 * parameters


@pytest.mark.slow
def test_activations_grow_with_the_batch_and_shrink_with_the_share_of_a_device() -> None:
    words = ["variation=attention_table3/C_N2", "data.vocabulary=1000"]
    whole = TASK.size(compose_run(words), memory=True)
    halves = TASK.size(compose_run([*words, "trainer.tokens_per_batch=12500"]), memory=True)
    assert whole.parameters == halves.parameters
    assert whole.activations is not None and halves.activations is not None
    assert 1.9 < whole.activations / halves.activations < 2.1


def test_changes_include_defaults_that_a_class_of_ones_own_declares(own_model: str) -> None:
    row = compose_run([f"model.kind={own_model}", "model.options={width: 8}"])
    planned = Planned("mine", RowDefinition("row", "Row"), row, compose_run())
    told = f"model transformer→{own_model}, options.pooling mean, options.width 8"
    assert PlanLine(planned).changes == told
