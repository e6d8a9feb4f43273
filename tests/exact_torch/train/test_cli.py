"""The command line, from a recipe to predictions and files for other programs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from exact_torch import data
from exact_torch.cli import main
from exact_torch.train import Config, RunError, train
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
        (["search", "digits", "--trials", "0"], "--trials: must be"),
        (["train", "--config", "{"], "--config: must be JSON"),
    ],
)
def test_counts_are_counts_and_configs_are_json(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


def test_enlarged_images_in_onnx_and_shrunk_ones_that_onnx_does_not_have(tmp_path, capfd):
    from onnx.reference import ReferenceEvaluator

    config = Config(model="linear", loss="ce", epochs=1, epoch_steps=2, image_size=12)
    train(config, tmp_path / "run", quiet=True, test=False)
    trained = Trained(tmp_path / "run")
    path = export(trained, tmp_path / "run.onnx", "onnx")
    inputs = 255 * torch.rand(3, 1, 8, 8)
    logits = ReferenceEvaluator(str(path)).run(None, {"inputs": inputs.numpy()})[0]
    np.testing.assert_allclose(logits, trained.predict(inputs).scores, rtol=1e-4, atol=1e-4)
    config = replace(config, image_size=4)
    train(config, tmp_path / "small", quiet=True, test=False)
    with pytest.raises(RunError, match="the other formats"):
        export(Trained(tmp_path / "small"), path, "onnx")
    capfd.readouterr()  # torch prints the graph


def test_inputs_that_do_not_fit(runs, tmp_path, capsys):
    np.save(tmp_path / "wide.npy", np.zeros((2, 9, 9)))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("wide.npy", r"must be (N, 1, 8, 8)"),
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
