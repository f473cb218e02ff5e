"""Learning rates and the paper's cost, compared with numbers computed outside the project."""

import re
import sys
from pathlib import Path

import pytest
import torch

from variations.configuration.compose import compose_run
from variations.configuration.faults import faults
from variations.configuration.transformer import BranchConfig, SequenceRecipe
from variations.models import build
from variations.system.errors import UserError
from variations.tasks.schedules import branch_rate, main_rate
from variations.tasks.sequences.experiment import parameter_groups
from variations.tasks.translation.config import TranslationConfig
from variations.training import schedule
from variations.training.budget import paper_cost

BASE = {
    1: 1.746928107421711e-07,
    100: 1.746928107421711e-05,
    1000: 0.0001746928107421711,
    4000: 0.0006987712429686843,
    8000: 0.0004941058844013093,
    16000: 0.00034938562148434214,
    60000: 0.00018042195912175803,
    100000: 0.00013975424859373687,
}
BIG = {
    1: 1.2352647110032733e-07,
    4000: 0.0004941058844013092,
    100000: 9.882117688026186e-05,
    300000: 5.70544330734548e-05,
}
BRANCH = {
    (512, 6): {
        1: 1.3531646934131855e-05,
        100: 0.0013531646934131856,
        400: 0.0054126587736527424,
        1000: 0.0034232659844072883,
        4000: 0.0017116329922036442,
        50000: 0.00048412291827592716,
        60000: 0.0004419417382415922,
    },
    (512, 2): {1: 7.8125e-06, 400: 0.003125, 4000: 0.0009882117688026185, 50000: 0.00027950849718747374},
    (1024, 6): {
        1: 9.56831930774679e-06,
        400: 0.0038273277230987165,
        4000: 0.0012103072956898178,
        240000: 0.00015625,
    },
}
RATIO = {1: 77.45966692414832, 400: 77.45966692414835, 4000: 2.4494897427831783, 60000: 2.4494897427831783}
RECIPE = SequenceRecipe(lr=1.0, warmup=4000)
NEVER_FROZEN = BranchConfig(freeze_last=0)


@pytest.mark.parametrize(("d_model", "rates"), [(512, BASE), (1024, BIG)])
def test_rate_of_the_weights(d_model, rates):
    assert {step: main_rate(step, RECIPE, d_model, 100_000) for step in rates} == pytest.approx(rates, rel=1e-12)


@pytest.mark.parametrize(("d_model", "N"), list(BRANCH))
def test_rate_of_kappa_and_alpha(d_model, N):
    rates = BRANCH[d_model, N]
    found = {step: branch_rate(step, NEVER_FROZEN, d_model, N, 10**6) for step in rates}
    assert found == pytest.approx(rates, rel=1e-12)


def test_ratio_of_both_rates():
    found = {
        step: branch_rate(step, NEVER_FROZEN, 512, 6, 10**6) / main_rate(step, RECIPE, 512, 10**6) for step in RATIO
    }
    assert found == pytest.approx(RATIO, rel=1e-12)


def test_the_paper_freezes_the_last_10k_of_60k_and_of_250k_steps():
    branch = BranchConfig()
    for steps, last in ((60_000, 50_000), (250_000, 240_000)):
        assert branch_rate(last, branch, 512, 6, steps) > 0
        assert branch_rate(last + 1, branch, 512, 6, steps) == 0
        assert branch_rate(steps, branch, 512, 6, steps) == 0


def test_the_papers_recipe_freezes_no_more_than_a_sixth_of_a_short_run_and_a_value_of_ones_own_holds():
    assert compose_run(["model=weighted", "recipe=ahmed2017", "trainer.max_steps=1200"]).branch.freeze_last == 200
    branch = BranchConfig(freeze_last=47)
    assert [branch_rate(step, branch, 32, 1, 48) > 0 for step in (1, 2)] == [True, False]


def test_lr_scale_multiplies_the_rate_of_kappa_and_alpha():
    assert branch_rate(7, BranchConfig(lr_scale=3.0), 512, 6, 10**6) == pytest.approx(
        3 * branch_rate(7, BranchConfig(), 512, 6, 10**6)
    )


def test_inverse_square_root_peaks_at_warmup():
    recipe = SequenceRecipe(schedule="inverse_sqrt", lr=5e-3, warmup=2000)
    found = {step: main_rate(step, recipe, 128, 8000) for step in (1, 1000, 2000, 8000)}
    assert found == pytest.approx({1: 2.5e-6, 1000: 2.5e-3, 2000: 5e-3, 8000: 2.5e-3})


def test_a_cosine_rises_to_its_peak_and_falls_to_zero_as_torchs_does():
    recipe = SequenceRecipe(schedule="cosine", lr=4e-3, warmup=100)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=4e-3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=300)
    assert main_rate(50, recipe, 128, 400) == pytest.approx(2e-3)
    for step in range(100, 401):
        assert main_rate(step, recipe, 128, 400) == pytest.approx(theirs.get_last_lr()[0], abs=1e-15)
        optimizer.step()
        theirs.step()
    assert main_rate(400, recipe, 128, 400) == 0.0
    assert main_rate(101, recipe, 128, 100) == 0.0  # torch asks for the rate after the last update too
    assert main_rate(7, recipe, 128, 7) == pytest.approx(2.8e-4)  # a trial run that ends before the peak


def config(**model):
    config = TranslationConfig()
    m = config.model
    m.N, m.d_model, m.d_ff, m.h = 2, 32, 32, 4
    for key, value in model.items():
        setattr(m, key, value)
    config.recipe.warmup = 4000
    config.trainer.max_steps = 60
    config.branch.freeze_last = 10
    return config


@pytest.mark.parametrize("profile", ["auto", "reference"])
def test_optimiser_uses_the_rate_of_step_one_first_and_each_group_its_own(profile):
    settings = config(kind="weighted")
    settings.profile = profile
    model = build(settings, 30)
    adam, rates = schedule.optimizer(parameter_groups(model, settings), settings)
    weights, branch = adam.param_groups
    seen = []
    for _ in range(60):
        seen.append((weights["lr"], branch["lr"]))
        adam.step()
        rates.step()
    steps = range(1, 61)
    assert [pair[0] for pair in seen] == pytest.approx(
        [main_rate(i, settings.recipe, 32, settings.trainer.max_steps) for i in steps]
    )
    assert [pair[1] for pair in seen] == pytest.approx([branch_rate(i, settings.branch, 32, 2, 60) for i in steps])
    assert [pair[1] > 0 for pair in seen] == [True] * 50 + [False] * 10
    assert weights["betas"] == branch["betas"] == (0.9, 0.98)
    assert weights["eps"] == branch["eps"] == 1e-9


def test_groups_hold_every_learned_parameter_once():
    settings = config(kind="weighted")
    settings.recipe.weight_decay = 0.1
    model = build(settings, 30)
    adam, _ = schedule.optimizer(parameter_groups(model, settings), settings)
    weights, branch = adam.param_groups
    assert len(branch["params"]) == 8
    assert {p.numel() for p in branch["params"]} == {4}
    grouped = [id(p) for group in adam.param_groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    assert (weights["weight_decay"], branch["weight_decay"]) == (0.1, 0.0)


def test_constant_branch_weights_are_not_optimised():
    settings = config(kind="weighted")
    settings.branch.train_mode = "uniform"
    model = build(settings, 30)
    adam, rates = schedule.optimizer(parameter_groups(model, settings), settings)
    adam.step()
    rates.step()
    assert len(adam.param_groups) == 1
    assert sum(len(g["params"]) for g in adam.param_groups) == sum(p.requires_grad for p in model.parameters())


def test_plain_transformer_has_one_group():
    adam, _ = schedule.optimizer(parameter_groups(build(config(), 30), config()), config())
    assert len(adam.param_groups) == 1
    assert isinstance(adam, torch.optim.Adam)


@pytest.mark.parametrize(("hours", "flops", "printed"), [(12, 3.2832e18, "3.3e+18"), (3.5 * 24, 2.29824e19, "2.3e+19")])
def test_training_cost_by_the_paper_s_rule(hours, flops, printed):
    cost = paper_cost(hours * 3600, 8, "Tesla P100-SXM2-16GB")
    assert cost == pytest.approx(flops, rel=1e-12)
    assert f"{cost:.1e}" == printed


def test_training_cost_from_steps():
    assert paper_cost(100_000 * 0.4, 8, "P100") == pytest.approx(3.04e18)
    assert paper_cost(300_000 * 1.0, 8, "P100") == pytest.approx(2.28e19)
    assert paper_cost(1.0, 1, "Tesla K40m") == pytest.approx(3.7e12)
    assert paper_cost(1.0, 1, "Quadro P1000") is None


def own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> str:
    """A module with classes, which a configuration can name; returns its name."""
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_the_schedule_on_the_page_for_variations_gives_the_rates_of_the_network_and_not_of_branch_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "adding-a-variation.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(class StableDecay:.*?)^```$", page, re.M | re.S)
    settings = config(kind="weighted")
    settings.recipe.schedule = own("shown_schedule", tmp_path, monkeypatch, code) + ":StableDecay"
    settings.recipe.lr, settings.recipe.warmup = 0.004, 10
    weights, branch = parameter_groups(build(settings, 30), settings)
    rates = {step: weights.rate(step) for step in (1, 5, 10, 30, 45, 60, 61)}
    assert rates == pytest.approx({1: 4e-4, 5: 2e-3, 10: 4e-3, 30: 4e-3, 45: 2e-3, 60: 0.0, 61: 0.0})
    assert branch.rate(7) == branch_rate(7, settings.branch, 32, 2, 60)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Absent", "has no class Absent"),
        ("Bare", r"cannot be constructed: TypeError in .*: .*takes no arguments"),
        ("Late", r"gives no rate for update 60: IndexError in .*bad_schedules\.py, line 6: list index out of range"),
        ("Negative", r"gives the rate -1\.0 for update 1: it must be a finite number of at least 0"),
    ],
)
def test_a_schedule_that_cannot_work_is_reported_before_any_work(
    name: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """class Bare: ...
class Late:
    def __init__(self, config):
        self.rates = [0.1] * 60
    def __call__(self, step):
        return self.rates[step]
class Negative(Late):
    def __call__(self, step):
        return -1
"""
    settings = config()
    settings.recipe.schedule = own("bad_schedules", tmp_path, monkeypatch, code) + f":{name}"
    (found,) = faults(settings)
    assert re.match(rf"recipe\.schedule=bad_schedules:{name}: .*{fault}", found)


def test_the_optimiser_is_adamw_or_a_class_of_any_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config()
    settings.recipe.weight_decay, settings.recipe.beta1 = 0.1, 0.5
    groups = parameter_groups(build(settings, 30), settings)
    settings.recipe.optimizer = "adamw"
    adamw, _ = schedule.optimizer(groups, settings)
    assert type(adamw) is torch.optim.AdamW
    assert (adamw.param_groups[0]["betas"], adamw.param_groups[0]["weight_decay"]) == ((0.5, 0.98), 0.1)
    settings.recipe.optimizer = "torch.optim:NAdam"
    assert faults(settings) == []
    nadam, rates = schedule.optimizer(groups, settings)
    assert type(nadam) is torch.optim.NAdam and nadam.param_groups[0]["weight_decay"] == 0.1
    assert rates.get_last_lr() == [groups[0].rate(1)]
    settings.recipe.optimizer = "collections:Counter"
    (text,) = faults(settings)
    assert text.startswith("recipe.optimizer=collections:Counter: is not a torch.optim.Optimizer")
    settings.recipe.optimizer = "torch.optim:LBFGS"
    with pytest.raises(UserError, match=r"recipe\.optimizer=torch\.optim:LBFGS: cannot be constructed: TypeError"):
        schedule.optimizer(groups, settings)
    settings.recipe.optimizer = "torch.optim:Nothing"
    assert faults(settings) == [
        "recipe.optimizer=torch.optim:Nothing: torch.optim has no class Nothing: check the name after the colon."
    ]
