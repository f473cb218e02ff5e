"""The fused GPU kernel, run on a CPU by Triton's interpreter, and its replacement where it cannot run."""

import importlib
import importlib.util
import itertools
import logging
import os
import subprocess
import sys

import pytest
import torch

from variations.configuration.transformer import BranchConfig, GateConfig, ModelConfig
from variations.models.kernels import FusedGPU, Reference
from variations.models.kernels import gpu as engine
from variations.models.kernels.branch_sum import branch_sum
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.branched import build

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture(scope="module")
def fused():
    """The kernels' module. Use `pip install triton` with torch builds that lack it, such as those for CPU."""
    pytest.importorskip("triton", reason="Triton is not installed; torch's builds for CUDA bring it")
    if not torch.cuda.is_available() and not INTERPRETED:
        pytest.skip("no GPU; `test_in_the_interpreter` runs this one in a process with TRITON_INTERPRET=1")
    return importlib.import_module("variations.models.kernels.branch_sum_triton")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["not exhaustive", pytest.param("exhaustive", marks=pytest.mark.exhaustive)])
@pytest.mark.skipif(INTERPRETED or torch.cuda.is_available(), reason="this process runs the kernels itself")
def test_in_the_interpreter(chosen):
    """Use a new process: Triton reads TRITON_INTERPRET on import, and may already be imported in this one."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed; torch's builds for CUDA bring it")
    command = [
        sys.executable,
        "-m",
        "pytest",
        __file__,
        "-q",
        "-k",
        "with_the_kernel or kernel_equals",
        "-m",
        chosen,
        "-p",
        "no:xdist",
    ]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def literally(heads, C, bias, base, alpha):
    z = heads @ C
    z = z if bias is None else z + bias[:, None]
    z = z if base is None else z + base
    return (alpha.t()[:, :, None] * z.relu()).sum(0)


OPTIONS = list(itertools.product(("none", "common", "own"), (False, True), ("common", "per_token")))
ONE_TILE, MANY_TILES = (1, 5, 16, 40), (3, 150, 6, 130)
CASES = [
    *(pytest.param(*ONE_TILE, *option, id="-".join(map(str, ("one_tile", *option)))) for option in OPTIONS),
    *(
        # The interpreter takes seconds for each: all run on a GPU and in `make torture`.
        pytest.param(
            *MANY_TILES,
            *option,
            id="-".join(map(str, ("many_tiles", *option))),
            marks=[pytest.mark.exhaustive] if place % 4 else [],
        )
        for place, option in enumerate(OPTIONS)
    ),
]


@pytest.mark.parametrize(("M", "n", "w", "f", "bias", "base", "alpha"), CASES)
def test_kernel_equals_the_literal_sum_in_values_and_gradients(fused, M, n, w, f, bias, base, alpha):
    generator = torch.Generator().manual_seed(4)

    def drawn(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(device())

    rows = {"none": 0, "common": 1, "own": M}[bias]
    given = [
        drawn(M, n, w),
        drawn(M, w, f) / w**0.5,
        drawn(rows, f) if rows else None,
        drawn(n, f) if base else None,
        drawn(1 if alpha == "common" else n, M),
    ]
    probe = drawn(n, f) / (n * f) ** 0.5  # a loss of size 1, as the tolerance is 1e-5
    found = []
    for form, dtype in ((literally, torch.float64), (fused.branch_sum, torch.float32)):
        tensors = [None if t is None else t.to(dtype).requires_grad_() for t in given]
        out = form(*tensors)
        wanted = [t for t in tensors if t is not None]
        found.append([out.detach(), *torch.autograd.grad((out * probe.to(dtype)).sum(), wanted)])
    for expected, got in zip(*found, strict=True):
        assert got.shape == expected.shape
        assert float((got - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("residual", ["outer", "outer+inner", "per_branch_into_ffn"])
@pytest.mark.parametrize("gate", ["none", "topk_input"])
def test_sub_layer_with_the_kernel_equals_the_naive_form(fused, gate, residual):
    found = []
    for impl, kernel in (("naive", Reference()), ("composed", FusedGPU())):
        torch.manual_seed(5)
        branch = BranchConfig(impl=impl, residual=residual, gate=GateConfig(kind=gate))
        config = ModelConfig(d_model=24, d_ff=32, h=4)
        layer = build(config, branch, kernel, BranchWeights(branch, 4)).to(device())
        with torch.no_grad():
            for parameter in (layer.b1, layer.b2):
                parameter.normal_(std=0.2)
        heads = torch.randn(1, 4, 11, 6, device=device(), requires_grad=True)
        x = torch.randn(1, 11, 24, device=device(), requires_grad=True)
        out = layer(heads, x)
        (out * torch.linspace(-1, 1, out.numel(), device=device()).view_as(out)).sum().backward()
        found.append([out.detach(), heads.grad, *(p.grad for p in layer.parameters() if p.grad is not None)])
        if impl == "composed":
            assert list(kernel._works.values()) == [True], "the kernel was not used"
    for expected, got in zip(*found, strict=True):
        assert float((got - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


def tensors(dtype=torch.float32, w=6):
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 9, w), (2, w, 12), (1, 12), (9, 12), (1, 2)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.mark.parametrize("fault", ["fails", "wrong"])
def test_without_a_sound_kernel_torch_takes_its_place_and_says_so_once(monkeypatch, caplog, fault):
    class Broken:
        @staticmethod
        def branch_sum(*given):
            if fault == "fails":
                raise RuntimeError("no compiler")
            return branch_sum(*given) * 1.5

    monkeypatch.setattr(engine, "_triton", lambda: Broken)
    kernel, given, before = FusedGPU(), tensors(), torch.get_rng_state()
    with caplog.at_level(logging.WARNING):
        first, second = (kernel.branch_sum(*given, 0.0) for _ in range(2))
    assert torch.equal(first, branch_sum(*given))
    assert torch.equal(first, second)
    assert [record.message for record in caplog.records if "torch's products are used instead" in record.message] == [
        caplog.records[0].message
    ]
    assert torch.equal(torch.get_rng_state(), before), "the self-test drew from the run's random numbers"


def test_each_form_of_the_arguments_is_tested_by_itself(monkeypatch):
    """No bias, one for each branch, no base, weights for each token: each is another program."""

    class WrongWithoutBias:
        @staticmethod
        def branch_sum(*given):
            return branch_sum(*given) * (1.5 if given[2] is None else 1.0)

    monkeypatch.setattr(engine, "_triton", lambda: WrongWithoutBias)
    kernel, (heads, C, bias, base, alpha) = FusedGPU(), tensors()
    forms = [
        (heads, C, bias, base, alpha),
        (heads, C, None, base, alpha),
        (heads, C, bias.expand(2, -1), base, alpha),
        (heads, C, bias, None, alpha),
        (heads, C, bias, base, alpha.expand(9, -1)),
    ]
    for form in forms:
        assert torch.allclose(kernel.branch_sum(*form, 0.0), branch_sum(*form))
    assert list(kernel._works.values()) == [True, False, True, True, True]


@pytest.mark.parametrize(
    ("dtype", "w", "dropout"), [(torch.float64, 6, 0.0), (torch.float32, 200, 0.0), (torch.float32, 6, 0.5)]
)
def test_what_the_kernel_cannot_do_never_reaches_it(monkeypatch, dtype, w, dropout):
    monkeypatch.setattr(engine, "_triton", lambda: pytest.fail("reached the kernel"))
    assert FusedGPU().branch_sum(*tensors(dtype, w), dropout).shape == (9, 12)


def test_a_sum_over_no_tokens_is_empty():
    heads, C, bias, base, alpha = (tensor.requires_grad_() for tensor in tensors())
    out = branch_sum(heads[:, :0], C, bias, base[:0], alpha)
    out.sum().backward()
    assert out.shape == (0, 12) and float(C.grad.abs().max()) == 0
