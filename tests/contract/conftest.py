"""The networks under contract: every model, position code and branch file, every choice that the schema offers,
combinations that broke once or might, and every row of every table, all at toy size.

New files in `conf/` and new choices in the schema are included automatically. A case with the same network as an
earlier one is left out: a row that is only quoted, or a choice that is the default.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch
import yaml

from variations.configuration.compose import compose_run
from variations.configuration.places import CONF
from variations.configuration.transformer import BranchConfig, GateConfig, ModelConfig, PositionsConfig
from variations.models import MODELS, Transformer, build
from variations.tasks.translation.config import TranslationConfig
from variations.training.seeding import seed_torch

VOCABULARY = 50


@dataclass
class Case:
    """A named configuration, composed on first use."""

    name: str
    compose: Callable[[], TranslationConfig]

    @cached_property
    def config(self) -> TranslationConfig:
        return self.compose()

    @property
    def key(self) -> str:
        """A key that is equal for configurations of the same network."""
        c = self.config
        return repr((c.model, c.positions, c.branch if c.model.kind == "weighted" else None, c.data.vocabulary_pad_to))

    def network(self, *, seed: int = 1, dropout: bool = True, perturb: bool = False) -> Transformer:
        """Build the network; `perturb` moves parameters that start at 0 (biases, gates) to expose faults in them."""
        config = dataclasses.replace(self.config, model=dataclasses.replace(self.config.model))
        if not dropout:
            config.model.dropout = config.model.attention_dropout = config.model.relu_dropout = 0.0
        seed_torch(seed)
        model = build(config, VOCABULARY)
        if perturb:
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if not name.endswith((".kappa", ".alpha")):
                        parameter.add_(0.1 * torch.randn_like(parameter))
        return model


def plain(config: TranslationConfig) -> TranslationConfig:
    """Set the toy size, for cases that do not test sizes."""
    config.model.N, config.model.d_model, config.model.d_ff, config.model.h = 2, 32, 64, 4
    return config


def shrunk(config: TranslationConfig) -> TranslationConfig:
    """Divide a table row's widths so that d_model=512 becomes 32; heads and ratios are kept."""
    m = config.model
    factor = 16 * config.recipe.scale.width
    m.N = min(m.N, 2)
    m.d_model, m.d_ff = max(8, round(m.d_model / factor)), max(8, round(m.d_ff / factor))
    m.d_k, m.d_v = (width and max(1, round(width / factor)) for width in (m.d_k, m.d_v))
    m.target_vocabulary = None  # the tests' sentences share one vocabulary
    return config


def option(*settings: tuple[str, object]) -> Callable[[], TranslationConfig]:
    """Return a function that composes the default network with dotted keys set."""

    def compose() -> TranslationConfig:
        config = plain(TranslationConfig())
        config.data.vocabulary_pad_to = 1
        for key, value in settings:
            node: object = config
            *path, last = key.split(".")
            for part in path:
                node = getattr(node, part)
            assert hasattr(node, last), key
            setattr(node, last, value)
        return config

    return compose


NEEDS: dict[tuple[str, object], list[tuple[str, object]]] = {
    ("model.attention", "restricted"): [("model.neighbourhood", 2)],
    ("branch.inner_norm", True): [("branch.impl", "naive")],
}


def choices(schema: type, prefix: str, *base: tuple[str, object]) -> Iterator[Case]:
    """Yield one case for each value of each field with a closed set of values."""
    for field in dataclasses.fields(schema):
        values = list(dict.fromkeys(field.metadata.get("choices", ())))
        if field.type in (bool, "bool"):
            values = [not field.default]
        for value in values:
            setting = (f"{prefix}.{field.name}", value)
            yield Case(f"{prefix}.{field.name}={value}", option(*base, setting, *NEEDS.get(setting, [])))


WEIGHTED = ("model.kind", "weighted")
COMBINATIONS: dict[str, list[tuple[str, object]]] = {
    "separate_d_k_d_v": [("model.d_k", 3), ("model.d_v", 5)],
    "weighted_separate_d_k_d_v": [WEIGHTED, ("model.d_k", 3), ("model.d_v", 5)],
    "task_vectors": [("model.task_vectors", 3)],
    "vocabulary_padded": [("data.vocabulary_pad_to", 64)],
    "no_biases": [("model.attention_bias", False), ("model.ffn_bias", False)],
    "positions_shorter_than_sentences": [("positions.kind", "learned"), ("positions.max_length", 4)],
    "restricted_1_pre_norm": [("model.attention", "restricted"), ("model.neighbourhood", 1), ("model.norm", "pre")],
    "additive_no_biases": [("model.attention", "additive"), ("model.attention_bias", False)],
    "M=1": [WEIGHTED, ("branch.M", 1)],
    "M=8_h=4": [WEIGHTED, ("branch.M", 8)],
    "M=2_split": [WEIGHTED, ("branch.M", 2), ("branch.ffn", "split")],
    "weighted_no_biases": [WEIGHTED, ("model.attention_bias", False), ("model.ffn_bias", False)],
    "weighted_pre_norm_bos_untied": [
        WEIGHTED,
        ("model.norm", "pre"),
        ("model.decoder_start", "bos"),
        ("model.tying", "none"),
    ],
    "weighted_relu_dropout": [WEIGHTED, ("model.relu_dropout", 0.1)],
    "shared_scope_both": [WEIGHTED, ("branch.scope", "shared_enc_dec"), ("branch.decoder", "both")],
    "split_per_branch_residual_bias": [
        WEIGHTED,
        ("branch.ffn", "split"),
        ("branch.residual", "per_branch_into_ffn"),
        ("branch.wo_bias", "per_branch"),
    ],
    "both_shared_ffn_split": [WEIGHTED, ("branch.ffn", "split"), ("branch.decoder", "both_shared_ffn")],
    "decoder_only": [WEIGHTED, ("branch.encoder", False)],
    "softmax_xM_random_at_test": [
        WEIGHTED,
        ("branch.constraint", "softmax_xM"),
        ("branch.eval_mode", "random_uniform"),
    ],
    "softmax_xM_alpha_only": [WEIGHTED, ("branch.constraint", "softmax_xM"), ("branch.kappa", False)],
}
COMBINATIONS |= {
    f"{kind}_k2{'_renormalised' if renormalise else ''}_{gradient}": [
        WEIGHTED,
        ("branch.gate.kind", kind),
        ("branch.gate.k", 2),
        ("branch.gate.renormalise", renormalise),
        ("branch.gate.gradient", gradient),
    ]
    for kind in ("topk", "topk_input")
    for renormalise in (False, True)
    for gradient in ("masked", "straight_through")
}


def from_files(group: str, *overrides: str) -> Iterator[Case]:
    for path in sorted((CONF / group).glob("*.yaml")):
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        if group == "model" and (settings["kind"] not in MODELS or "d" in settings):
            continue  # a network of another task
        chosen = [*overrides, f"{group}={path.stem}"]
        yield Case(f"conf/{group}/{path.stem}", lambda chosen=chosen: plain(compose_run(chosen)))


def row(path: Path) -> Case:
    name = f"{path.parent.name}/{path.stem}"
    return Case(f"row/{name}", lambda: shrunk(compose_run([f"variation={name}"])))


def distinct(cases: Iterable[Case], key: Callable[[Case], str]) -> list[Case]:
    """Return the first of the cases with equal keys."""
    return list({key(case): case for case in reversed(list(cases))}.values())[::-1]


def of_the_network(path: Path) -> str:
    """Return a row file's settings of the network. Equal texts mean equal networks, so no row need be composed."""
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    return repr({key: value for key, value in settings.items() if key not in ("variation", "recipe", "trainer")})


ALL_OPTIONS = [
    *choices(ModelConfig, "model"),
    *choices(PositionsConfig, "positions"),
    *choices(BranchConfig, "branch", WEIGHTED),
    *choices(GateConfig, "branch.gate", WEIGHTED, ("branch.gate.kind", "topk")),
    *(Case(f"mix/{name}", option(*settings)) for name, settings in COMBINATIONS.items()),
]
OPTIONS = distinct(ALL_OPTIONS, lambda case: case.key)
FILES = [*from_files("model"), *from_files("positions"), *from_files("branch", "model=weighted")]
ROW_FILES = {
    f"row/{path.parent.name}/{path.stem}": path
    for path in sorted((CONF / "variation").glob("*/*.yaml"))
    # Leave out other kinds of networks, and readings, which combine what OPTIONS covers one by one.
    if "/task: question_answering" not in path.read_text(encoding="utf-8") and path.parent.name != "weighted_readings"
}
ROWS = distinct(map(row, ROW_FILES.values()), lambda case: of_the_network(ROW_FILES[case.name]))
CASES = [*OPTIONS, *FILES, *ROWS]
REPRESENTATIVE = {CASES[0].name, "model.norm=pre", "model.kind=weighted", "branch.ffn=split"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise tests by fixture. `case`: all cases, rows marked slow; `branched`: cases with branches.

    `learner`: all cases, for tests that train; the test suite trains every tenth option. `copier`: the cases that the
    test's module lists in `COPIERS`. OPTIONS cover one by one what rows and files of `conf/` combine, so these run in
    `make torture`; in the test suite, rows only make an update by their recipe.
    """
    branched = [case for case in OPTIONS if case.config.model.kind == "weighted"]
    branched += [case for case in FILES if case.name.startswith("conf/branch/")]
    copiers = [case for case in CASES if case.name in getattr(metafunc.module, "COPIERS", ())]
    fixtures = {"case": CASES, "branched": branched, "learner": CASES, "copier": copiers}
    for name in fixtures.keys() & set(metafunc.fixturenames):
        parameters = [pytest.param(case, id=case.name, marks=_marks(case, name, metafunc)) for case in fixtures[name]]
        assert parameters
        metafunc.parametrize(name, parameters)


def _marks(case: Case, fixture: str, metafunc: pytest.Metafunc) -> list[pytest.MarkDecorator]:
    if fixture == "copier":
        return [pytest.mark.exhaustive]
    if fixture == "learner" and case.name not in REPRESENTATIVE:
        return [pytest.mark.slow] if case in OPTIONS[::10] else [pytest.mark.slow, pytest.mark.exhaustive]
    if case in OPTIONS:
        packed = metafunc.function.__name__ == "test_without_padding_nothing_changes"  # `make torture`: of all
        return [pytest.mark.exhaustive] if packed and OPTIONS.index(case) % 2 else []
    by_recipe = case in ROWS and "recipe" in metafunc.function.__name__
    return [pytest.mark.slow] if by_recipe else [pytest.mark.slow, pytest.mark.exhaustive]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Limit torch to one thread: two test processes share two cores."""
    torch.set_num_threads(1)
