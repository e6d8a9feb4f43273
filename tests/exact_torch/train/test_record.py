"""Files of a run: whole or not at all, readable without running code."""

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from exact_torch.train import Config, RunError, checkpoint
from exact_torch.train.record import Folder, environment

ROOT = Path(__file__).parents[3]


def test_states_round_trip(tmp_path):
    state = {"a": torch.arange(3.0), "b": [1, 2.5, "word", None], "c": {"d": True}}
    checkpoint.save(tmp_path / "state.pt", state)
    loaded = checkpoint.load(tmp_path / "state.pt")
    assert torch.equal(loaded.pop("a"), state.pop("a"))
    assert loaded == state
    assert os.listdir(tmp_path) == ["state.pt"]


def test_nothing_in_a_file_is_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    path = tmp_path / "checkpoint.pt"
    torch.save({"a": Trap()}, path)
    with pytest.raises(pickle.UnpicklingError):
        checkpoint.load(path)
    assert not (tmp_path / "sprung").exists()


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"a": 1})

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(path, {"a": 2})
    assert checkpoint.load(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["state.pt"]


def test_a_full_disk_is_told_with_what_is_left(tmp_path, monkeypatch):
    folder = Folder(tmp_path / "run", Config())
    folder.save("checkpoint.pt", {"step": 1})
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(RunError, match=r"full.*last good checkpoint is .*checkpoint\.pt"):
        folder.save("checkpoint.pt", {"step": 2})
    assert folder.load("checkpoint.pt") == {"step": 1}


@pytest.mark.parametrize("keep", [0, 10, 500])
def test_a_damaged_checkpoint_is_named_and_not_loaded(tmp_path, keep):
    folder = Folder(tmp_path / "run", Config())
    folder.save("checkpoint.pt", {"weights": torch.zeros(1000)})
    path = folder / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RunError, match=r"checkpoint\.pt is damaged"):
        folder.load("checkpoint.pt")


def test_a_half_written_file_is_never_looked_at(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    (folder / "checkpoint.pt.part").write_bytes(b"half")
    assert folder.load("checkpoint.pt") is None


def test_folders_are_of_one_config(tmp_path):
    Folder(tmp_path / "run", Config(lr=0.1)).save("checkpoint.pt", {})
    Folder(tmp_path / "run", Config(lr=0.1))
    with pytest.raises(RunError, match=r"lr=0\.2 \(was 0\.1\)"):
        Folder(tmp_path / "run", Config(lr=0.2))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(RunError, match="other files"):
        Folder(tmp_path / "mine", Config())


def test_a_run_that_was_killed_before_it_began(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json.part").write_text("{")
    Folder(tmp_path / "run", Config())
    (tmp_path / "run" / "environment.json").unlink()
    Folder(tmp_path / "run", Config())
    assert (tmp_path / "run" / "environment.json").exists()


def test_a_run_that_never_began_takes_other_settings(tmp_path):
    Folder(tmp_path / "run", Config(model="resnt18"))  # and the next thing is an error
    Folder(tmp_path / "run", Config(model="resnet18"))
    assert '"resnet18"' in (tmp_path / "run" / "config.json").read_text()
    (tmp_path / "run" / "weights.bin").touch()  # not ours
    with pytest.raises(RunError, match="other files"):
        Folder(tmp_path / "run", Config())


def test_numbers_that_json_does_not_have_are_not_written(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with pytest.raises(ValueError, match="JSON"):
        folder.add_metrics({"epoch": 1, "loss": float("nan")})


def test_the_commit_is_of_this_source(tmp_path, monkeypatch):
    def git(command, **options):  # as in an environment inside of another project's checkout
        out = "" if "ls-files" in command else "0123abcd"
        return subprocess.CompletedProcess(command, 0, stdout=out)

    monkeypatch.setattr(subprocess, "run", git)
    assert environment()["commit"] is None


def test_measurements_after_a_checkpoint_are_forgotten(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    for epoch in (1, 2, 3):
        folder.add_metrics({"epoch": epoch})
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 4, "tr')  # killed while writing
    folder.keep_metrics(2)
    assert folder.metrics() == [{"epoch": 1}, {"epoch": 2}]


def test_a_process_that_does_not_write_does_not(tmp_path):
    folder = Folder(tmp_path / "run", Config(), writes=False)
    folder.save("checkpoint.pt", {})
    folder.add_metrics({"epoch": 1})
    folder.save_summary({})
    assert not (tmp_path / "run").exists()


def test_one_process_at_a_time(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from exact_torch.train import Config, RunError\n"
        "from exact_torch.train.record import Folder\n"
        "try:\n"
        f"    with Folder(Path({str(tmp_path / 'run')!r}), Config()).locked():\n"
        "        pass\n"
        "except RunError as error:\n"
        "    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", code]
    with folder.locked():
        refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "another process is training" in refused.stderr
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
