"""Tests of the PyTorch operator: gradients, and shapes during compilation, with a CPU kernel in place of a GPU's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training import training_losses

torch: Any = pytest.importorskip("torch")
ours: Any = pytest.importorskip("tiledmm.torch")

SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((0, 4), (4, 5)), ((3, 0), (0, 5)),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu() -> None:
    """Compute products of CPU tensors by PyTorch."""
    ours._library.impl("matmul", lambda a, b, precision: torch.matmul(a, b).contiguous(), "CPU")


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_of_any_order(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    torch.manual_seed(1)
    operands = [torch.randn(shape, dtype=getattr(torch, dtype), requires_grad=True) for shape in (left, right)]
    assert torch.equal(ours.matmul(*operands), torch.matmul(*operands))
    assert torch.autograd.gradcheck(ours.matmul, operands)
    assert torch.autograd.gradgradcheck(ours.matmul, operands)


def test_only_the_gradients_that_are_wanted() -> None:
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    ours.matmul(a, b).sum().backward()
    assert torch.allclose(a.grad, b.sum(1).expand(3, 4)) and b.grad is None


def test_compiled_functions_keep_it_whole() -> None:
    compiled = torch.compile(lambda a, b: torch.relu(ours.matmul(a, b)) + 1, fullgraph=True, backend="aot_eager")
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    assert torch.equal(compiled(a, b), torch.relu(a @ b) + 1)
    compiled(a, b).sum().backward()
    assert a.grad is not None


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the products that are computed here, of tensors on any device."""
    calls: list[Any] = []

    def multiplies(a: Any, b: Any) -> bool:
        calls.append((a.shape, b.shape))
        return True

    monkeypatch.setattr(ours, "_multiplies", multiplies)
    return calls


def test_products_of_code_that_knows_nothing_of_it(called: list[Any]) -> None:
    a, b, batch = torch.randn(3, 4), torch.randn(4, 5), torch.randn(2, 4, 5)
    with ours.replacing():
        for found in (torch.matmul(a, b), a @ b, a.matmul(b), torch.mm(a, b), a.mm(b)):
            assert torch.equal(found, torch.matmul(a, b, out=torch.empty(3, 5)))
        assert torch.equal(torch.bmm(batch.mT, batch), batch.mT.contiguous().bmm(batch))
        torch.add(a, a)
    assert len(called) == 7
    assert torch.equal(a @ b, torch.matmul(a, b)) and len(called) == 7, "not outside"


def test_a_training_step(called: list[Any]) -> None:
    wanted = training_losses(torch, "cpu")
    with ours.replacing():
        assert training_losses(torch, "cpu") == pytest.approx(wanted, rel=1e-5)
    assert len(called) == 10


def test_what_is_left_to_torch() -> None:
    x = torch.ones(3, 3)
    assert not ours._multiplies(x, x) and not ours._multiplies(x, 2), "on the CPU, or no tensor"
    with ours.replacing():
        assert torch.equal(x @ x, 3 * x)


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_the_operator_is_as_torch_wants_it(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    from torch import library

    operands = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
    library.opcheck(ours._product, (*operands, "full"))
