"""The benchmark runs: networks fit their last layers, and times are of what it says."""

import pytest
import torch
from torch import nn

from validation.benchmarks import single_logit


@pytest.mark.parametrize("network", single_logit.networks(64, full=True), ids=lambda n: n[0])
def test_networks(network):
    _, body, shape, width = network
    with torch.inference_mode():
        assert body.eval()(torch.randn(2, *shape)).shape == (2, width)


def test_measure():
    row = single_logit.measure(("layer", nn.Identity(), (256,), 256), 20_000, 3, "cpu")
    assert row["ratio"] == row["all"] / row["one"]
    assert row["ratio"] > 2  # 20,000 times the work


def test_fits():
    assert single_logit.fits(1024, 64, "cpu")
    assert not single_logit.fits(2**40, 64, "cpu")
