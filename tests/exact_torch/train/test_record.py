"""Files of a run: whole or not at all, readable without running code."""

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from exact_torch.train import Config, RunError, RunWarning, checkpoint
from exact_torch.train.compare import compare
from exact_torch.train.folder_lock import hold_run_of
from exact_torch.train.record import FILES, Folder, environment

ROOT = Path(__file__).parents[3]


def measured(epoch):
    return {"epoch": epoch, "train": {"loss": 1.0}, "validation": None, "lr": 0.1}


def contents(path):
    """All files but the lock: a process that closes it loses it."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}


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
    with folder.locked():
        folder.save("checkpoint.pt", {"step": 1})
        full = OSError(28, "full")
        monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(full))
        with pytest.raises(RunError, match=r"full.*last good checkpoint is .*checkpoint\.pt"):
            folder.save("checkpoint.pt", {"step": 2})
    assert folder.load("checkpoint.pt") == {"step": 1}


@pytest.mark.parametrize("keep", [0, 10, 500])
def test_a_damaged_checkpoint_is_named_and_not_loaded(tmp_path, keep):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        folder.save("checkpoint.pt", {"weights": torch.zeros(1000)})
    path = folder / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RunError, match=r"checkpoint\.pt is damaged"):
        folder.load("checkpoint.pt")


def test_a_half_written_file_is_ignored(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    folder.path.mkdir()
    (folder / "checkpoint.pt.part").write_bytes(b"half")
    assert folder.load("checkpoint.pt") is None


def test_folders_are_of_one_config(tmp_path):
    folder = Folder(tmp_path / "run", Config(lr=0.1))
    with folder.locked():
        folder.save("checkpoint.pt", {})
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
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        pass
    (tmp_path / "run" / "environment.json").unlink()
    with folder.locked():
        pass
    assert (tmp_path / "run" / "environment.json").exists()


def test_a_run_that_never_began_takes_other_settings(tmp_path):
    with Folder(tmp_path / "run", Config(model="resnt18")).locked():
        pass  # and the next thing is an error
    with Folder(tmp_path / "run", Config(model="resnet18")).locked():
        pass
    assert '"resnet18"' in (tmp_path / "run" / "config.json").read_text()
    (tmp_path / "run" / "weights.bin").touch()  # not ours
    with pytest.raises(RunError, match="other files"):
        Folder(tmp_path / "run", Config())


def test_numbers_that_json_does_not_have_are_not_written(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked(), pytest.raises(ValueError, match="JSON"):
        folder.add_metrics({"epoch": 1, "loss": float("nan")})


def test_the_commit_is_of_this_source(tmp_path, monkeypatch):
    def git(command, **options):  # as in an environment inside of another project's checkout
        out = "" if "ls-files" in command else "0123abcd"
        return subprocess.CompletedProcess(command, 0, stdout=out)

    monkeypatch.setattr(subprocess, "run", git)
    assert environment()["commit"] is None


def test_measurements_after_a_checkpoint_are_forgotten(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        for epoch in (1, 2, 3):
            folder.add_metrics(measured(epoch))
        with open(folder / "metrics.jsonl", "a") as file:
            file.write('{"epoch": 4, "tr')  # killed while writing
        folder.keep_metrics(2)
    assert folder.metrics() == [measured(1), measured(2)]


def test_a_process_that_does_not_write_does_not(tmp_path):
    folder = Folder(tmp_path / "run", Config(), writes=False)
    folder.save("checkpoint.pt", {})
    folder.add_metrics({"epoch": 1})
    folder.save_summary({})
    assert not (tmp_path / "run").exists()


ATTEMPT = """
import sys
from pathlib import Path
from exact_torch.train import Config, RunError
from exact_torch.train.record import Folder
try:
    with Folder(Path(sys.argv[1]), Config(lr=0.5)).locked():
        pass
except RunError as error:
    sys.exit(str(error))
"""


def test_one_process_at_a_time_and_a_refused_one_changes_nothing(tmp_path):
    command = [sys.executable, "-c", ATTEMPT, str(tmp_path / "run")]
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        before = contents(folder.path)
        assert '"lr": 0.1' in before["config.json"].decode()
        refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert contents(folder.path) == before
    assert "another process is training" in refused.stderr
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert '"lr": 0.5' in (folder / "config.json").read_text()  # nothing was to be lost


def test_another_thread_is_refused_too(tmp_path):
    with Folder(tmp_path / "run", Config()).locked():
        before = contents(tmp_path / "run")
        with (
            pytest.raises(RunError, match="another thread"),
            Folder(tmp_path / "run", Config(lr=0.5)).locked(),
        ):
            pass
        assert contents(tmp_path / "run") == before
    with Folder(tmp_path / "run", Config(lr=0.5)).locked():
        pass


def test_nothing_is_written_without_the_lock(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    assert not (tmp_path / "run").exists()
    for write in (
        lambda: folder.save("checkpoint.pt", {}),
        lambda: folder.save_summary({}),
        lambda: folder.add_metrics(measured(1)),
        lambda: folder.keep_metrics(0),
    ):
        with pytest.raises(RuntimeError, match="must be locked"):
            write()
    assert not (tmp_path / "run").exists()


def test_a_run_that_began_since_is_noticed_under_the_lock(tmp_path):
    late = Folder(tmp_path / "run", Config(lr=0.5))
    first = Folder(tmp_path / "run", Config())
    with first.locked():
        first.save("checkpoint.pt", {})
    with pytest.raises(RunError, match=r"lr=0\.5 \(was 0\.1\)"), late.locked():
        pass


def test_files_for_other_programs_take_the_lock_of_the_run_they_are_put_into(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        with pytest.raises(RunError, match="writing into"), hold_run_of(folder / "a.onnx", FILES):
            pass
        with hold_run_of(tmp_path / "a.onnx", FILES):
            pass
    with hold_run_of(folder / "a.onnx", FILES):
        pass
    with pytest.raises(RunError, match="belongs to the run"), hold_run_of(folder / "lock", FILES):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": ', "\xff", "[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_damaged_text_files_are_named_with_a_remedy(name, text, tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        folder.save_summary({"seconds": 1.0, "test_accuracy": 0.5})
    (folder / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(RunError, match=rf"run/{name}.*(put a copy|delete it)"):
        Folder(tmp_path / "run", Config()).summary()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", '{"epochs": "x"}', "epochs must be"),
        ("config.json", '{"epochs": 0}', "epochs must be"),
        ("config.json", '{"loss_options": {"sigma": NaN}}', "loss_options.sigma"),
        ("summary.json", "{}", "number 'seconds'"),
        ("summary.json", '{"seconds": 1, "test_accuracy": "a"}', "number 'test_accuracy'"),
    ],
)
def test_fields_that_make_no_sense_are_named_with_their_file(name, text, message, tmp_path):
    with Folder(tmp_path / "run", Config()).locked():
        pass
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(RunError, match=rf"run/{name}.*{message}"):
        compare([tmp_path])


def test_a_history_that_was_cut_off_keeps_its_whole_lines(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        for epoch in (1, 2, 3):
            folder.add_metrics(measured(epoch))
    path = folder / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # without its end of line the last line is still whole
    assert [row["epoch"] for row in folder.metrics()] == [1, 2, 3]
    path.write_bytes(whole[:-5])
    with pytest.warns(RunWarning, match=r"last line of .*run/metrics\.jsonl was cut off"):
        assert [row["epoch"] for row in folder.metrics()] == [1, 2]
    with (
        folder.locked(),
        pytest.warns(RunWarning, match=r"no whole line for epoch 3; .* the 2 whole lines"),
    ):
        folder.keep_metrics(3)
    assert [row["epoch"] for row in folder.metrics()] == [1, 2]


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"epoch": 2}', '{"epoch": 2, "lr": "x"}'])
def test_a_line_of_the_history_that_makes_no_sense_is_named(line, tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        folder.add_metrics(measured(1))
        with open(folder / "metrics.jsonl", "a") as file:
            file.write(line + "\n")
        folder.add_metrics(measured(3))
    with pytest.raises(RunError, match=r"line 2 of .*run/metrics\.jsonl .*delete that line"):
        folder.metrics()


def test_states_of_another_kind_are_told(tmp_path):
    folder = Folder(tmp_path / "run", Config())
    with folder.locked():
        folder.save("checkpoint.pt", [1])
        folder.save("model.pt", {"network": {}})
    with pytest.raises(RunError, match=r"checkpoint\.pt is damaged .*a list.*begin again"):
        folder.load("checkpoint.pt")
    with pytest.raises(RunError, match=r"model\.pt is damaged .*has no classes.*summary\.json"):
        folder.load("model.pt", needs=("network", "classes"))
