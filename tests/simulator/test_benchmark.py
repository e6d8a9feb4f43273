"""The benchmark runs from end to end, on the smallest batches there are."""

import json
import sys

import pytest

from validation.benchmarks import gpu


@pytest.mark.slow
def test_small_run(monkeypatch, tmp_path, capsys):
    path = tmp_path / "record.json"
    monkeypatch.setattr(sys, "argv", ["gpu", "--small", "--json", str(path)])
    assert gpu.main() == 0
    printed = capsys.readouterr().out
    assert "Simulated" in printed
    assert "figure 5" in printed
    lines = json.loads(path.read_text())["results"]
    own = [line for line in lines if line["cpu"] is not None]
    programs = {line["program"].partition(",")[0] for line in own}
    assert programs == {"exact", "best", "pathwise", "genz", "tilting"}
    for line in own:
        assert line["off"] < (1e-6 if "float32" in line["program"] else 1e-9), line
    published = [line for line in lines if line["program"].startswith("published")]
    assert bool(published) == (gpu.torch_device() is not None)
    double = [line for line in published if line["program"].endswith("float64")]
    assert all(0.0 < line["off"] < 1.0 for line in double)  # 16 samples
