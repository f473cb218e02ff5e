"""An update on a GPU never waits for it: no number, and no shape that depends on one, is read from the device.

Whole updates run on torch's fake tensors, which have shapes and a device but no contents: reading contents raises an
exception. `Watch` detects copies between host and device that would wait. Without a GPU, the device is invented; this
changes torch permanently, so this file then runs again in a separate process.
"""

import itertools
import operator
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from suite import sampled
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from variations.configuration.transformer import BranchConfig, GateConfig
from variations.data.batching import Batch
from variations.models.kernels import FusedGPU, varlen
from variations.models.loss import Smoothing, cross_entropy
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.experiment import TranslationExperiment
from variations.tasks.translation.task import TASK
from variations.training.step import Step

FLASH = "aten._flash_attention_forward.default"
GPU = "cuda" if torch.cuda.is_available() else "invented"
INVENT = "VARIATIONS_TEST_INVENTS_A_GPU"
CAST = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm")
"""Operators that autocast computes in bfloat16, as far as relevant here."""
WIDEN = ("softmax.int", "log_softmax.int", "layer_norm", "exp", "log", "pow.Tensor_Scalar")
"""Operators that autocast computes in float32 on a GPU, but not on a CPU."""
PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


@pytest.mark.slow
@pytest.mark.skipif(GPU == "cuda" or INVENT in os.environ, reason="this process has a GPU, real or invented")
@pytest.mark.parametrize("chosen", ["not exhaustive", pytest.param("exhaustive", marks=pytest.mark.exhaustive)])
def test_on_an_invented_gpu(chosen):
    command = [
        sys.executable,
        "-m",
        "pytest",
        __file__,
        "-rs",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-m",
        chosen,
    ]
    done = subprocess.run(command, env=os.environ | {INVENT: "1"}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SKIPPED") == 1, "something besides this test was left out"


class Module:
    """The functions that torch requires of a device's module."""

    is_available = is_initialized = staticmethod(lambda: True)
    _is_in_bad_fork = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16])


@pytest.fixture(scope="module")
def device():
    if GPU == "cuda":
        yield
        return
    if INVENT not in os.environ:
        pytest.skip("no GPU; `test_on_an_invented_gpu` runs this one in a process that invents one")
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(GPU, Module())
    autocast = torch._C.DispatchKey.AutocastPrivateUse1
    fallback, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")

    def cast(packet, dtype):
        def run(*args):
            same = [x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in args]
            with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(autocast)):
                return packet(*same)

        return run

    for dtype, names in ((torch.bfloat16, CAST), (torch.float32, WIDEN)):
        for name in names:
            aten.impl(name, cast(operator.attrgetter(name)(torch.ops.aten), dtype), "AutocastPrivateUse1")
    yield


class Fake(FakeTensorMode):
    """Never queries the device itself."""

    avoid_device_init = True


class Watch(TorchDispatchMode):
    """Records every operator; raises at a copy that the host would wait for, and at a product of unequal types."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.seen.append(str(func))
        if str(func).rpartition(".")[0] in PRODUCTS:  # fake tensors allow what a GPU refuses
            assert len({x.dtype for x in args if isinstance(x, torch.Tensor)}) == 1, f"{func} of unequal types"
        places = {t.device.type for t in tree_leaves((args, kwargs, out)) if isinstance(t, torch.Tensor)}
        if str(func).startswith(("aten._to_copy", "aten.copy_")) and len(places) > 1:
            assert kwargs.get("non_blocking") or any(arg is True for arg in args), f"{func} waits for a copy"
        return out


@pytest.fixture
def gpu(device, monkeypatch):
    """Fake tensors on a GPU; the trial runs of both kernels are replaced by fixed results."""
    monkeypatch.setattr(FusedGPU, "works", lambda *given: False)  # torch's products: Triton accepts no fake tensors
    monkeypatch.setattr(varlen, "packs", lambda config, device, kernels: varlen.why_padded(config, "cuda") is None)
    with Fake(), torch.device(GPU):
        yield


def config(kind="transformer", **changes):
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = kind, 1, 32, 64, 4
    config.trainer.precision, config.recipe.clip, config.recipe.ema = "bf16-mixed", 1.0, 0.99
    config.trainer.accelerator, config.profile = "gpu", "experimental"
    for key, value in changes.items():
        setattr(config.trainer if hasattr(config.trainer, key) else m if hasattr(m, key) else config, key, value)
    return config


def batch():
    source, target = torch.ones(5, 9, dtype=torch.int64), torch.ones(5, 7, dtype=torch.int64)
    return Batch(source, target, torch.arange(5), 41, 33, (0, 0, 0))


def autocast(config):
    return torch.autocast(GPU, torch.bfloat16, enabled=config.trainer.precision == "bf16-mixed")


def updates(config):
    """Make two updates as Lightning does; return the training step and the operators seen."""
    data = SimpleNamespace(subwords=SimpleNamespace(size=50))
    task = Step(config, TASK, TranslationExperiment(config, data, "cuda"))
    task._device = torch.device(GPU)
    progress = SimpleNamespace(total=SimpleNamespace(ready=1))
    epoch = SimpleNamespace(batch_idx=0, batch_progress=progress)
    fit_loop = SimpleNamespace(epoch_loop=epoch)
    task.trainer = SimpleNamespace(
        world_size=1,
        num_training_batches=9,
        global_rank=0,
        global_step=0,
        current_epoch=0,
        fit_loop=fit_loop,
        precision_plugin=SimpleNamespace(forward_context=lambda: autocast(config)),
        strategy=SimpleNamespace(root_device=torch.device(GPU)),
    )
    task.on_fit_start()
    made = task.configure_optimizers()
    task.optimizers, task.lr_schedulers = lambda: made["optimizer"], lambda: made["lr_scheduler"]
    task.manual_backward = lambda loss, gradient: loss.backward(gradient)
    with Watch() as watch:
        for step in range(2):
            with autocast(config):
                task.training_step(batch(), step)
    assert task.window.sums.device.type == GPU
    return task, watch.seen


NETWORKS = {
    "transformer": {},
    "attention_dropout": {"attention_dropout": 0.1},
    "restricted": {"attention": "restricted", "neighbourhood": 2},
    "pre_norm": {"norm": "pre"},
    "weighted": {"kind": "weighted", "attention_dropout": 0.1},
    **{
        f"{ffn}_{impl}": {"kind": "weighted", "branch": BranchConfig(ffn=ffn, impl=impl)}
        for ffn in ("shared", "split", "full")
        for impl in ("naive", "composed")
    },
    "softmax": {"kind": "weighted", "branch": BranchConfig(constraint="softmax", center_grad=True)},
    "renormalise": {"kind": "weighted", "branch": BranchConfig(constraint="renormalise")},
    "gate": {"kind": "weighted", "branch": BranchConfig(gate=GateConfig(kind="topk"))},
    "gate_per_token": {"kind": "weighted", "branch": BranchConfig(gate=GateConfig(kind="topk_input"))},
    "random_weights": {"kind": "weighted", "branch": BranchConfig(train_mode="random_per_step")},
}


@pytest.mark.parametrize("network", sampled(NETWORKS, 5))
def test_an_update_never_waits_for_the_device(gpu, network):
    task, seen = updates(config(**NETWORKS[network]))
    assert task.experiment.packs
    assert seen.count(FLASH) == 6, "three attentions, in each of two updates"
    assert seen.count("aten._flash_attention_backward.default") == 6


@pytest.mark.parametrize(
    ("kind", "changes"),
    sampled(itertools.product(["transformer", "weighted"], [{"h": 8}, {"precision": "32-true"}]), 3),
)
def test_an_update_with_padding_never_waits(gpu, kind, changes):
    task, seen = updates(config(kind, **changes))
    assert not task.experiment.packs
    assert FLASH not in seen


def test_additive_attention_never_waits(gpu):
    task, _ = updates(config(attention="additive"))
    assert not task.experiment.packs


def test_learned_positions_never_wait(gpu):
    one = config()
    one.positions.kind = "learned"
    assert updates(one)[0].experiment.packs


def test_a_product_of_unequal_types_would_be_seen(gpu):
    with Watch(), pytest.raises(AssertionError, match="unequal types"):
        torch.zeros(2, 3) @ torch.zeros(3, 2, dtype=torch.bfloat16)


@pytest.mark.parametrize("form", ["t2t", "torch", "annotated"])
def test_no_loss_waits(gpu, form):
    hidden = torch.randn(2, 5, 8, requires_grad=True)
    with Watch() as watch:
        loss, _ = cross_entropy(hidden, torch.randn(20, 8), torch.ones(2, 5, dtype=torch.int64), Smoothing(0.1, form))
        loss.backward()
    assert hidden.grad is not None and hidden.grad.shape == hidden.shape
    assert any("softmax" in name or "logsumexp" in name or "exp" in name for name in watch.seen), "nothing was watched"


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.item(),
        lambda x: bool(x > 0),
        lambda x: x[None][x[None] > 0],
        lambda x: x[None].nonzero(),
        lambda x: x.tolist(),
    ],
    ids=["item", "bool", "mask", "nonzero", "tolist"],
)
def test_waiting_would_be_seen(gpu, wait):
    with Watch(), pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
        wait(torch.zeros(()))


def test_a_copy_that_waits_would_be_seen(gpu):
    with Watch():
        torch.zeros(3, device="cpu").to(GPU, non_blocking=True)
        for there, back in (("cpu", GPU), (GPU, "cpu")):
            with pytest.raises(AssertionError, match="waits for a copy"):
                torch.zeros(3, device=there).to(back)


def test_lightning_copies_a_batch_without_waiting(gpu):
    from lightning_fabric.utilities.apply_func import move_data_to_device

    with torch.device("cpu"):
        here = batch()
    with Watch() as watch:
        there = move_data_to_device(here, torch.device(GPU))
    assert there.source.device.type == there.target.device.type == there.index.device.type == GPU
    assert sum(name.startswith("aten._to_copy") for name in watch.seen) == 3
