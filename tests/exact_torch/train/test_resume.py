"""Runs that are killed, and runs of several processes, end as if nothing had happened."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from exact_torch.train import Config, RunError, train

ROOT = Path(__file__).parents[3]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MVNORTH_NUM_THREADS": "1"}
CONFIG = {
    "data": "digits",
    "model": "small_cnn",
    "model_options": {"width": 4},
    "loss": "exact",
    "loss_options": {"sigma": [5.0, 0.5], "margin": 2.0, "normalize": True},
    "gradient": "normalize",
    "lr": 0.05,
    "batch_size": 64,
    "epochs": 3,
    "checkpoint_steps": 7,
}
TWO = ("-m", "torch.distributed.run", "--nproc-per-node", "2")


def command(out, config=CONFIG, launcher=()):
    """The command that trains a config, or a recipe's file."""
    what = ["--config", json.dumps(config)] if isinstance(config, dict) else [str(config)]
    return [sys.executable, *launcher, "-m", "exact_torch", "train", *what, "--out", str(out)]


def tried(out, config=CONFIG, launcher=(), **more):
    return subprocess.run(
        command(out, config, launcher),
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run(*arguments, **more):
    done = tried(*arguments, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def weights(out):
    state = torch.load(out / "model.pt", weights_only=True)["network"]
    return torch.cat([each.double().flatten() for each in state.values()])


def measured(out):
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("seconds")
    return rows


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run(out)
    return out


@pytest.mark.parametrize("moments", [(0.6,), pytest.param((0.1, 0.6), marks=pytest.mark.slow)])
def test_killed_at_any_moment(tmp_path, undisturbed, moments):
    out = tmp_path / "run"
    kills = 0
    for moment in moments:  # seconds after the first sign of life
        before = (out / "metrics.jsonl").stat().st_mtime_ns if out.exists() else 0
        process = subprocess.Popen(
            command(out),
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None:  # keep_metrics writes the file when training begins
            metrics = out / "metrics.jsonl"
            if metrics.exists() and metrics.stat().st_mtime_ns > before:
                break
            time.sleep(0.02)
        time.sleep(moment)
        if process.poll() is None:
            kills += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (out / "summary.json").exists():
            break
    assert kills >= 1
    run(out)
    assert torch.equal(weights(out), weights(undisturbed))
    assert measured(out) == measured(undisturbed)


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path, undisturbed):
    out = tmp_path / "run"
    run(out, launcher=TWO)
    torch.testing.assert_close(weights(out), weights(undisturbed), rtol=1e-3, atol=1e-4)
    for one, two in zip(measured(undisturbed), measured(out), strict=True):
        assert one["train"]["loss"] == pytest.approx(two["train"]["loss"], rel=1e-3)
        assert one["train"]["sigma"] == pytest.approx(two["train"]["sigma"])


CHANGES = {
    "batch_ce": {"loss": "batch_ce", "loss_options": {}},
    "nce": {"loss": "nce", "loss_options": {"draws": 3}},
    "learned": {"loss": "beta_bernoulli", "loss_options": {"learned": True}},
    "predicted": {"head": "predicted", "loss_options": {"sigma": 2.0}},
    "asam": {"rho": 0.5, "accumulate": 2},
}


@pytest.mark.slow
def test_losses_of_a_batch_in_two_processes(tmp_path):
    short = CONFIG | {"epochs": 1, "epoch_steps": 4, "gradient": "none"}
    configs = {name: short | changed for name, changed in CHANGES.items()}
    recipe = tmp_path / "several.py"
    recipe.write_text(
        "from exact_torch.train import Config\n"
        f"RUNS = {{name: Config.from_json(each) for name, each in {configs!r}.items()}}\n"
    )
    run(tmp_path / "two", recipe, TWO)
    for name, config in configs.items():
        train(Config.from_json(config), tmp_path / name, quiet=True)
        torch.testing.assert_close(
            weights(tmp_path / "two" / name), weights(tmp_path / name), rtol=1e-3, atol=1e-5
        )


@pytest.mark.slow
def test_a_lost_process_is_replaced(tmp_path, undisturbed):
    out = tmp_path / "run"
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with subprocess.Popen(
        command(out, launcher=(*TWO, "--max-restarts", "2")),
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, **own_store},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            while not (out / "checkpoint.pt").exists():
                assert process.poll() is None
                time.sleep(0.05)
            workers = subprocess.run(
                ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
            ).stdout.split()
            os.kill(int(workers[-1]), signal.SIGKILL)
            printed, _ = process.communicate(timeout=300)
        finally:
            process.terminate()
    assert process.returncode == 0, printed
    torch.testing.assert_close(weights(out), weights(undisturbed), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_restarts_that_might_hang_are_refused(tmp_path):
    done = tried(tmp_path / "run", launcher=(*TWO, "--max-restarts", "2"))
    assert done.returncode != 0
    assert "needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in done.stderr


@pytest.mark.slow
def test_a_batch_that_cannot_be_shared(tmp_path):
    done = tried(tmp_path / "run", CONFIG | {"batch_size": 63}, TWO)
    assert done.returncode != 0
    assert "multiple of accumulate=1 times the 2 processes" in done.stderr


def test_a_finished_run_can_be_extended(tmp_path):
    config = Config(model="linear", epochs=2, epoch_steps=5, schedule="cosine", loss="ce")
    short = train(config, tmp_path / "run", quiet=True, pictures=False)
    longer = dataclasses.replace(config, epochs=4)
    with pytest.raises(RunError, match="other settings: epochs=4"):
        train(longer, tmp_path / "run", quiet=True, pictures=False)
    other = dataclasses.replace(longer, lr=0.2)
    with pytest.raises(RunError, match="other settings"):
        train(other, tmp_path / "run", quiet=True, pictures=False, extend=True)
    seen = []
    done = train(
        longer,
        tmp_path / "run",
        quiet=True,
        pictures=False,
        extend=True,
        callbacks=[lambda measured, network: seen.append((measured["epoch"], measured["lr"]))],
    )
    assert (short["epochs"], done["epochs"]) == (2, 4)
    # The rates of epochs 3 and 4 of 4, not what was left after 2 of 2: nothing.
    half = [0.5 * config.lr * (1 + math.cos(math.pi * epoch / 4)) for epoch in (2, 3)]
    assert [epoch for epoch, _ in seen] == [3, 4]
    assert [rate for _, rate in seen] == pytest.approx(half)
    again = train(longer, tmp_path / "run", quiet=True, extend=True)
    assert again == done
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 4
