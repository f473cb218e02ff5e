"""Products of bfloat16 matrices in float32: the same numbers as those of torch, in and out of a training."""

import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from variations.models import build
from variations.tasks.translation.config import TranslationConfig
from variations.training import bf16, performance

COMPARED = """
import torch
from variations.training import bf16

def products():
    torch.manual_seed(0)
    a, b = torch.randn(6, 33, 20).bfloat16(), torch.randn(6, 20, 17).bfloat16()
    layer, x = torch.nn.Linear(20, 17), torch.randn(4, 9, 20, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.float().square().sum().backward()
    total, out = (a[0] @ b[0]).clone(), torch.empty(33, 17, dtype=torch.bfloat16)
    total.addmm_(a[1], b[1])
    torch.addmm(total, a[2], b[2], out=out)
    single, batch = torch.empty_like(out), torch.empty(6, 33, 17, dtype=torch.bfloat16)
    torch.mm(a[3], b[3], out=single)
    torch.bmm(a, b, out=batch)
    found = [total, out, a[0] @ b[0], a @ b, torch.baddbmm(a @ b, a, b, beta=0.5, alpha=2.0)]
    found += [single, batch, (a @ b).baddbmm_(a, b), y, layer.weight.grad, x.grad]
    return [*found, a[0].float() @ b[0].float()]

before = products()
bf16.multiply_in_float32()
bf16.multiply_in_float32()
after = products()
torch.manual_seed(0)
a, b = torch.randn(6, 33, 20).bfloat16(), torch.randn(6, 20, 17).bfloat16()
assert torch.equal(after[2], (a[0].float() @ b[0].float()).bfloat16())
assert torch.equal(after[5], (a[3].float() @ b[3].float()).bfloat16())
assert torch.equal(after[-1], before[-1])
for old, new in zip(before, after):
    assert old.dtype == new.dtype
    torch.testing.assert_close(new.float(), old.float(), rtol=1 / 64, atol=1 / 64)  # bfloat16 keeps 8 bits
print("equal")
"""


@pytest.mark.slow
def test_the_products_are_those_of_torch() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", COMPARED], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("equal\n", "")


class _Products(TorchDispatchMode):
    """The names of the operators that multiply bfloat16 matrices."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, arguments=(), keys=None):
        name = function.name().removeprefix("aten::")
        if "mm" in name and any(getattr(x, "dtype", None) == torch.bfloat16 for x in arguments):
            self.seen.add(name)
        return function(*arguments, **(keys or {}))


@pytest.mark.parametrize("branch", [{}, {"ffn": "split"}, {"residual": "per_branch_into_ffn"}, {"impl": "naive"}])
@pytest.mark.parametrize("kind", ["transformer", "weighted"])
def test_every_product_of_a_network_is_among_them(kind, branch):
    """`mm.out` of the branches once was not, and made the Weighted Transformer three times slower."""
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h, m.dropout = kind, 1, 32, 64, 4, 0.1
    for key, value in branch.items():
        setattr(config.branch, key, value)
    model = build(config, 50)
    source, target = torch.randint(4, 50, (2, 9)), torch.randint(4, 50, (2, 7))
    with _Products() as products:
        with torch.autocast("cpu", torch.bfloat16):
            out = model(source, target)
        out.float().sum().backward()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            model(source, target)
    assert "mm" in products.seen
    assert products.seen <= set(bf16.PRODUCTS)


@pytest.mark.parametrize(("has", "where"), [(True, "oneDNN"), (False, "in float32, rounded")])
def test_they_are_computed_in_float32_only_where_the_processor_has_no_instructions(
    has: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[None] = []
    monkeypatch.setattr(bf16, "has_instructions", lambda: has)
    monkeypatch.setattr(bf16, "multiply_in_float32", lambda: replaced.append(None))
    before = torch.get_float32_matmul_precision()
    try:
        assert performance.apply("auto", "cpu", None, {}, "bf16-mixed")["bf16_products"] == where
        assert len(replaced) == (not has)
        assert "bf16_products" not in performance.apply("auto", "cpu", None, {}, "32-true")
        assert "bf16_products" not in performance.apply("reference", "cpu", None, {}, "bf16-mixed")
        assert len(replaced) == (not has)
    finally:
        torch.set_float32_matmul_precision(before)
