"""The command line, from a recipe to predictions and files for other programs."""

import copy
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from exact_torch import data
from exact_torch.cli import main
from exact_torch.train import Config, RunError, checkpoint
from exact_torch.train.folder_lock import hold_folder
from exact_torch.train.network import network_of
from exact_torch.train.onnx_file import onnx_bytes
from exact_torch.train.record import Folder
from exact_torch.train.trained import Trained, export

RECIPE = """
from exact_torch.train import Config

CONFIG = dict(model="small_cnn", model_options={"width": 4}, lr=0.05, epochs=2, batch_size=64)
RUNS = {
    "exact": Config(loss="exact", loss_options={"sigma": [5.0, 1.0], "normalize": True}, **CONFIG),
    "predicted": Config(loss="exact", head="predicted", **CONFIG),
    "ce": Config(loss="ce", **CONFIG),
}
SEARCH = {"lr": [0.001, 0.05]}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of runs that the recipe was trained into."""
    folder = tmp_path_factory.mktemp("cli")
    recipe = folder / "mine.py"
    recipe.write_text(RECIPE)
    assert main(["train", str(recipe), "--out", str(folder / "runs"), "--quiet"]) == 0
    return folder / "runs"


@pytest.fixture(scope="module")
def digits():
    return data.load("digits").test


def test_a_table_is_trained_into_a_folder_for_each_run(runs):
    assert sorted(path.name for path in runs.iterdir()) == ["ce", "exact", "predicted"]
    summary = json.loads((runs / "exact" / "summary.json").read_text())
    assert summary["test_accuracy"] > 0.6


def test_one_run_with_settings_and_seeds(tmp_path, capsys):
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    told = ["--set", "epochs=1", "--set", "epoch_steps=3", "--set", 'model="linear"']
    told += ["--set", "model_options={}", "--seeds", "2", "--seed", "5", "--no-test"]
    assert main(["train", f"{recipe}/ce", "--out", str(tmp_path / "runs"), *told]) == 0
    configs = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/config.json")]
    assert sorted(config["seed"] for config in configs) == [5, 6]
    assert {(config["loss"], config["epoch_steps"]) for config in configs} == {("ce", 3)}
    printed = capsys.readouterr().out
    assert "epoch 1/1" in printed
    assert "validation: accuracy" in printed


def test_compare(runs, tmp_path, capsys):
    picture = tmp_path / "compare.png"
    assert main(["compare", str(runs), "--picture", str(picture)]) == 0
    assert "| loss=exact, head=predicted" in capsys.readouterr().out
    with Image.open(picture) as image:
        assert image.width > 500
    assert main(["compare", str(runs), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3
    assert all(row["runs"][0]["test_accuracy"] > 0.3 for row in rows)


@pytest.mark.parametrize("run", ["exact", "predicted", "ce"])
def test_predict_is_what_was_tested(run, runs, digits, tmp_path, capsys):
    path = tmp_path / "digits.npy"
    np.save(path, digits.inputs(torch.arange(len(digits))).numpy()[:, 0])
    assert main(["predict", str(runs / run), str(path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    right = [int(row["class"]) == label for row, label in zip(rows, digits.labels, strict=True)]
    summary = json.loads((runs / run / "summary.json").read_text())
    assert np.mean(right) == pytest.approx(summary["test_accuracy"])
    own = [row["probabilities"][str(int(label))] for row, label in zip(rows, digits.labels)]  # noqa: B905
    # With normalisation sigma is in units of the validation set's scores, not of the test set's.
    tolerance = 0.05 if run == "exact" else 1e-4
    assert np.mean(own) == pytest.approx(summary["test_expected_accuracy"], rel=tolerance)
    assert all(sum(row["probabilities"].values()) == pytest.approx(1.0, abs=1e-5) for row in rows)


def test_predict_images(runs, digits, tmp_path, capsys):
    for number in range(3):
        image = digits.inputs(torch.tensor([number]))[0, 0].numpy()
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    assert main(["predict", str(runs / "ce"), str(tmp_path), str(tmp_path / "0.png")]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    trained = Trained(runs / "ce")
    expected = trained.predict(digits.inputs(torch.arange(3))).classes
    assert [line[1] for line in lines[:3]] == [trained.classes[each] for each in expected]
    assert lines[3] == lines[0]
    assert 0.1 < float(lines[0][2]) <= 1.0


def test_predict_rows_of_a_table(tmp_path, capsys):
    lines = ["length,colour,kind"]
    for number in range(60):
        kind = "ab"[number % 2]
        lines.append(f"{number % 2 * 5 + number / 60:.2f},{['red', 'blue'][number % 2]},{kind}")
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    recipe = tmp_path / "table.py"
    recipe.write_text(
        "from exact_torch.train import Config\n"
        f"RUNS = {{'': Config(data='csv', data_options={{'path': {str(table)!r}}}, model='linear',"
        " loss='ce', epochs=20, batch_size=16)}\n"
    )
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    new = tmp_path / "new.csv"
    new.write_text("colour,length\nblue,5.5\nred,0.2\n")
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), str(new)]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["b", "a"]


def test_the_name_of_the_file_says_its_format(runs, tmp_path):
    onnx = pytest.importorskip("onnx")
    assert main(["export", str(runs / "ce"), str(tmp_path / "network.onnx")]) == 0
    assert onnx.load(tmp_path / "network.onnx").graph.output[0].name
    assert main(["export", str(runs / "ce"), str(tmp_path / "network.pt2")]) == 0
    assert (
        torch.export.load(tmp_path / "network.pt2").module()(torch.zeros(3, 1, 8, 8)).shape[0] == 3
    )


@pytest.mark.parametrize("form", ["torch.export", "torchscript", "onnx"])
@pytest.mark.parametrize("run", ["predicted", "ce"])
def test_export(form, run, runs, digits, tmp_path, capsys):
    path = tmp_path / "network"
    assert main(["export", str(runs / run), str(path), "--format", form]) == 0
    assert "raw inputs (B, 1, 8, 8) to logits (B, 10)" in capsys.readouterr().out
    inputs = digits.inputs(torch.arange(7)).float()
    with torch.no_grad():
        if form == "onnx":
            from onnx.reference import ReferenceEvaluator

            logits = ReferenceEvaluator(str(path)).run(None, {"inputs": inputs.numpy()})[0]
            logits = torch.from_numpy(np.asarray(logits))
        elif form == "torchscript":
            with pytest.deprecated_call():
                logits = torch.jit.load(path)(inputs)
        else:
            logits = torch.export.load(path).module()(inputs)
    expected = Trained(runs / run).predict(inputs).scores
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_recipes_are_listed(capsys):
    assert main(["recipes"]) == 0
    printed = capsys.readouterr().out
    assert "digits-ce " in printed
    assert "exact-v1-table1-small" in printed
    assert main(["recipes", "mnist"]) == 0
    assert "mnist/hinge" in capsys.readouterr().out


def test_search(tmp_path, capsys):
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    told = ["--set", "epochs=1", "--set", "epoch_steps=3", "--trials", "1", "--seeds", "1"]
    assert main(["search", f"{recipe}/ce", "--out", str(tmp_path / "search"), *told]) == 0
    printed = capsys.readouterr().out
    assert "trial 0: lr=" in printed
    assert "best on the validation set" in printed
    assert (tmp_path / "search" / "best" / "seed-0" / "summary.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "digitz"], 2, "did you mean 'digits'"),
        (["train", "digits", "--set", "epoch=1"], 2, "did you mean 'epochs'"),
        (["train", "digits", "--set", "loss=cee"], 2, "no loss is called 'cee'"),
        (["train", "digits", "--set", "loss_options.speed=1"], 2, "no option 'speed'"),
        (["train", "digits", "--set", "model=small"], 2, "no model is called"),
        (["train", "digits", "--set", "device=cuda"], 1, "no GPU"),
        (["train", "digits", "--set", "loss_options.sigma=NaN"], 2, "loss_options.sigma must be"),
        (["train", "digits", "--set", "loss_options.sigma=[1]"], 2, "must be a number, [start, "),
        (["train", "digits", "--set", "loss_options.sigma=1e50"], 2, "range of torch.float32"),
        (["train", "digits", "--set", "loss_options.weight=3"], 2, "weight must be a list"),
        (["train", "digits", "--set", "loss_options.normalize=5"], 2, "normalize must be True"),
        (["train", "digits", "--set", "data_options.folder=x"], 2, "use --data-dir"),
        (["train", "digits", "--set", "data_options.fetch=1"], 2, "digits has no option fetch"),
        (["train", "digits", "--set", "model_options.head=1"], 2, "use the setting head"),
        (["train", "digits", "--set", "model_options.width=0"], 2, "width must be at least 1"),
        (["train", "digits", "--set", "schedule_options.epochs=1"], 2, "use the setting epochs"),
        (["train", "digits", "--set", "workers=100000"], 2, "workers must be at most"),
        (["train", "digits", "--set", "lr=1e50"], 2, "lr must be"),
        (["train", "--config", "[]"], 2, "must be a mapping of settings, got []"),
        (["compare", "nowhere"], 1, "holds a run"),
        (["predict", "nowhere", "x.png"], 1, "holds no run"),
        (["export", "nowhere", "x.pt"], 1, "holds no run"),
    ],
)
def test_what_makes_no_sense_is_told(arguments, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    told = capsys.readouterr().err
    assert told.startswith("exact-torch: ")
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "digits", "--seeds", "-1"], "--seeds: must be a whole number of at least 1"),
        (["train", "digits", "--threads", "0"], "--threads: must be"),
        (["train", "digits", "--threads", "100000"], "--threads: must be at most"),
        (["search", "digits", "--threads", "100000"], "--threads: must be at most"),
        (["search", "digits", "--trials", "0"], "--trials: must be"),
        (["train", "--config", "{"], "--config: must be JSON"),
    ],
)
def test_counts_are_counts_and_configs_are_json(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"image_size": 12}, (1, 8, 8)),
        ({"image_size": 5}, (1, 8, 8)),  # shrunk with antialiasing, which ONNX does not have
        ({"model": "small_cnn", "model_options": {"width": 2}}, (1, 28, 28)),  # 7 x 7 to 2 x 2
    ],
    ids=["enlarged", "shrunk", "pooled"],
)
def test_onnx_of_images_that_change_their_size(settings, shape, tmp_path):
    import onnx
    from onnx.reference import ReferenceEvaluator

    config = replace(Config(model="linear", loss="ce"), **settings)
    statistics = torch.full((1, 1, 1), 128.0), torch.full((1, 1, 1), 64.0)
    network = network_of(config, 10, shape, *statistics).eval()
    content = onnx_bytes(copy.deepcopy(network), torch.zeros(2, *shape))
    inputs = 255 * torch.rand(3, *shape)
    evaluator = ReferenceEvaluator(onnx.load_from_string(content))
    logits = evaluator.run(None, {"inputs": inputs.numpy()})[0]
    expected = network(inputs).detach()
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_what_onnx_does_not_have_is_named_without_the_graph(capfd):
    class Scaled(torch.nn.Module):
        def forward(self, inputs):
            return torch.special.erfcx(inputs.flatten(1))

    with pytest.raises(RunError, match=r"operation aten::special_erfcx.*torch\.export") as raised:
        onnx_bytes(Scaled(), torch.zeros(2, 1, 4, 4))
    assert "graph(" not in str(raised.value) + "".join(capfd.readouterr())


def test_files_are_not_written_over_those_of_a_run(runs, tmp_path, capsys):
    before = (runs / "ce" / "model.pt").read_bytes()
    assert main(["export", str(runs / "ce"), str(runs / "ce" / "model.pt")]) == 1
    assert "belongs to the run" in capsys.readouterr().err
    picture = str(runs / "ce" / "curves.png")
    assert main(["compare", str(runs), "--picture", picture]) == 1
    assert "belongs to the run" in capsys.readouterr().err
    assert (runs / "ce" / "model.pt").read_bytes() == before
    with hold_folder(runs / "ce"):
        assert main(["export", str(runs / "ce"), str(runs / "ce" / "network.pt2")]) == 1
    assert "is writing into" in capsys.readouterr().err
    assert not (runs / "ce" / "network.pt2").exists()


def test_a_run_that_is_refused_leaves_the_other_as_it_is(tmp_path, capsys):
    run = tmp_path / "run"
    first = Folder(run, Config(model="linear"))
    with first.locked():
        before = (run / "config.json").read_bytes(), (run / "environment.json").read_bytes()
        assert main(["train", "digits", "--out", str(run), "--set", "lr=0.5", "--quiet"]) == 1
        assert "is writing into" in capsys.readouterr().err
        after = (run / "config.json").read_bytes(), (run / "environment.json").read_bytes()
        assert after == before


def test_a_search_is_locked_and_does_not_go_into_a_run(runs, tmp_path, capsys):
    recipe = tmp_path / "mine.py"
    recipe.write_text(RECIPE)
    command = ["search", f"{recipe}/ce", "--trials", "1", "--out"]
    (tmp_path / "search").mkdir()
    with hold_folder(tmp_path / "search"):
        assert main([*command, str(tmp_path / "search")]) == 1
    assert "is writing into" in capsys.readouterr().err
    assert main([*command, str(runs / "ce")]) == 1
    assert "holds a run" in capsys.readouterr().err
    assert not (runs / "ce" / "trial-00").exists()


def test_states_that_are_not_whole_are_told_and_can_be_made_again(tmp_path, capsys):
    run = tmp_path / "run"
    told = [f"--set={each}" for each in ("epochs=1", "epoch_steps=1", "model=linear")]
    told += ["--set=model_options={}", "--quiet", "--no-test", "--out", str(run)]
    assert main(["train", "digits", *told]) == 0
    state = checkpoint.load(run / "checkpoint.pt")
    del state["optimizer"]
    checkpoint.save(run / "checkpoint.pt", state)
    (run / "summary.json").unlink()
    capsys.readouterr()
    assert main(["train", "digits", *told]) == 1
    printed = capsys.readouterr().err
    assert "checkpoint.pt is damaged (it has no optimizer); delete it" in printed
    state["optimizer"] = {}
    checkpoint.save(run / "checkpoint.pt", state)
    assert main(["train", "digits", *told]) == 1
    assert "checkpoint.pt is damaged (" in capsys.readouterr().err
    (run / "checkpoint.pt").unlink()  # as the message says
    assert main(["train", "digits", *told]) == 0
    checkpoint.save(run / "model.pt", {"network": {}})
    assert main(["predict", str(run), "x.npy"]) == 1
    assert "model.pt is damaged (it has no classes" in capsys.readouterr().err
    (run / "model.pt").unlink()
    (run / "summary.json").unlink()
    assert main(["train", "digits", *told]) == 0
    lines = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(lines + '{"epo')
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["compare", str(run), "--picture", str(tmp_path / "x.png")]) == 0
    assert capsys.readouterr().err.startswith("exact-torch: the last line of ")


def test_inputs_that_do_not_fit(runs, tmp_path, capsys):
    np.save(tmp_path / "wide.npy", np.zeros((2, 9, 9)))
    np.save(tmp_path / "nan.npy", np.full((2, 8, 8), np.nan))
    (tmp_path / "none.npy").touch()
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04")
    with open(tmp_path / "several.npy", "wb") as file:
        np.savez(file, a=np.zeros((2, 8, 8)))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("wide.npy", r"must be (N, 1, 8, 8)"),
        ("nan.npy", "nan.npy must hold finite numbers"),
        ("none.npy", "none.npy is not an array"),
        ("zip.npy", "zip.npy is not an array"),
        ("several.npy", "several.npy holds several arrays"),
        ("objects.npy", "not an array"),
        ("text.png", "not an image"),
        ("gone.png", "no file"),
        ("empty", "no images"),
    ):
        assert main(["predict", str(runs / "ce"), str(tmp_path / name)]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"format must be one of"):
        export(Trained(runs / "ce"), tmp_path / "x", "coffee")


def test_an_unfinished_run_cannot_predict(runs, tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text((runs / "ce" / "config.json").read_text())
    assert main(["predict", str(folder), "x.png"]) == 1
    assert "not finished" in capsys.readouterr().err
    assert main(["compare", str(folder)]) == 1
    assert "none of the runs is finished" in capsys.readouterr().err
