"""Synchronised batch norm: two processes with a half each do what one with the whole batch does."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from exact_torch.models import SynchronizedBatchNorm, synchronized

ROOT = Path(__file__).parents[3]

# One rank: steps on its share of the batch, gradients averaged as DistributedDataParallel does
# (whose import takes longer than all else here), then what it has.
RANK = """
import sys, torch
import torch.distributed as dist
sys.path.insert(0, {folder!r})
from test_sync_batch_norm import MOMENTA, batches, network
from exact_torch.models import synchronized
torch.set_num_threads(1)
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://{store}", rank=rank, world_size=2)
found = {{}}
for momentum in MOMENTA:
    model = synchronized(network(momentum))
    inputs = []
    for x, weights in batches():
        mine = x.chunk(2)[rank].clone().requires_grad_()
        model.zero_grad()
        (model(mine) * weights.chunk(2)[rank]).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= 2
        inputs.append(mine.grad / 2)  # of the mean over ranks of their losses
    gradients = [p.grad for p in model.parameters()]
    state = model.state_dict()
    found[momentum] = inputs, gradients, state, model.eval()(batches()[0][0])
torch.save(found, f"{store}.{{rank}}")
dist.destroy_process_group()
"""
MOMENTA = (0.1, None)


def network(momentum=0.1):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 5, 3),
        nn.BatchNorm2d(5, momentum=momentum),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(5 * 2 * 2, 4),
        nn.BatchNorm1d(4, affine=False),
    ).double()


def batches():
    """Means far from 0, which sums of squares would lose digits to."""
    generator = torch.Generator().manual_seed(1)
    return [
        (
            100 + torch.randn(6, 2, 4, 4, generator=generator, dtype=torch.float64),
            torch.rand(6, 4, generator=generator, dtype=torch.float64),
        )
        for _ in range(2)
    ]


def test_two_processes_do_what_one_does(tmp_path):
    store = tmp_path / "store"
    code = RANK.format(folder=str(Path(__file__).parent), store=store)
    ranks = [
        subprocess.Popen([sys.executable, "-c", code, str(rank)], cwd=ROOT) for rank in range(2)
    ]
    assert [each.wait(timeout=300) for each in ranks] == [0, 0]
    close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)
    for rank in range(2):
        for momentum, found in torch.load(f"{store}.{rank}").items():
            inputs, gradients, state, evaluated = found
            model = network(momentum)
            for mine, (x, weights) in zip(inputs, batches(), strict=True):
                x.requires_grad_()
                model.zero_grad()
                (model(x) * weights).square().mean().backward()
                close(mine, x.grad.chunk(2)[rank])
            for mine, parameter in zip(gradients, model.parameters(), strict=True):
                close(mine, parameter.grad)
            for name, value in model.state_dict().items():
                close(state[name], value)
            close(evaluated, model.eval()(batches()[0][0]))


def test_alone_it_is_torchs_own():
    one, two = network(), synchronized(network())
    assert [type(two[index]) for index in (1, 5)] == [SynchronizedBatchNorm] * 2
    for x, _ in batches():
        assert torch.equal(one(x), two(x))
    assert torch.equal(one.eval()(x), two.eval()(x))


def test_parameters_and_statistics_stay_the_same_objects():
    model = network()
    before = {name: id(value) for name, value in model.state_dict(keep_vars=True).items()}
    model.eval()
    assert synchronized(model) is model
    assert {n: id(v) for n, v in model.state_dict(keep_vars=True).items()} == before
    assert not any(each.training for each in model.modules())
    assert isinstance(synchronized(nn.BatchNorm1d(3)), SynchronizedBatchNorm)


def test_a_vector_is_no_batch():
    with pytest.raises(ValueError, match=r"x must be \(B, C, ...\), got \(3,\)"):
        SynchronizedBatchNorm(3)(torch.zeros(3))
