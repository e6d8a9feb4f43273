"""Recipes: what the papers publish, names, files of users, and that every run can be made."""

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from exact_torch import models, optim, recipes
from exact_torch.data import augment
from exact_torch.schedules import SigmaSchedule
from exact_torch.train import Config, train, with_settings
from exact_torch.train.network import loss_of, network_of

TABLES = [name for name in recipes.names() if f"{name}-small" in recipes.names()]


@functools.cache
def recipe(name):
    return recipes.get(name)


def test_each_table_and_figure_of_the_papers_has_a_recipe_and_a_twin():
    assert TABLES == [
        "exact-v1-figure4",
        "exact-v1-table1",
        "exact-v1-table2",
        "exact-v2-images",
        "exact-v2-tabular",
        "mixing-table1",
        "mixing-table2",
        "mixing-table4",
        "mixing-table5",
        "mixing-table6",
        "pols-table1",
    ]


@pytest.mark.parametrize("name", recipes.names())
def test_names_lead_to_their_runs(name):
    whole = recipe(name)
    assert whole.name == name
    assert whole.doc.endswith(".")
    assert set(whole.search) == set(whole.runs)
    assert all(whole.search.values())
    each = recipes.variants(name)
    assert len(each) == len(whole.runs)
    for variant in (each[0], each[-1]):
        single = recipes.get(variant)
        assert list(single.runs.values()) == [whole.runs[variant[len(name) + 1 :]]]


@pytest.mark.parametrize("name", recipes.names())
def test_losses_and_schedules_of_every_run_can_be_made(name):
    distinct = {}
    for config in recipe(name).runs.values():
        distinct[repr((config.loss, config.loss_options))] = config
        distinct[repr((config.schedule, config.schedule_options, config.epochs))] = config
    for config in distinct.values():
        loss_of(config)
        model = torch.nn.Linear(2, 2)
        optimizer = optim.get(config.optimizer, model, config.lr, decay=config.decay)
        optim.lr_schedule(config.schedule, optimizer, config.epochs, **config.schedule_options)


@pytest.mark.parametrize("name", TABLES)
def test_every_value_of_a_search_is_a_setting(name):
    distinct = {}
    for twin in (recipe(name), recipe(f"{name}-small")):
        for variant, grid in twin.search.items():
            distinct[repr((twin.runs[variant].loss, grid))] = twin.runs[variant], grid
    for config, grid in distinct.values():
        for setting, values in grid.items():
            for value in values:
                loss_of(with_settings(config, [f"{setting}={value}"]))


SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28)}


def shape_of(config):
    if config.data.startswith("uci/"):
        return (5,)
    if config.data == "folder":
        return (3, config.data_options["size"], config.data_options["size"])
    return SHAPES.get(config.data, (3, 32, 32))


@pytest.mark.slow
def test_networks_of_all_runs_can_be_made_and_take_their_images():
    distinct = {}
    for name in recipes.names():
        for config in recipe(name).runs.values():
            distinct[repr((config.model, config.model_options))] = config
    for config in distinct.values():
        shape = shape_of(config)
        one = torch.ones(shape[0], *[1] * (len(shape) - 1))
        with torch.device("meta"):
            network = network_of(config, 7, shape, one.to("meta"), one.to("meta")).eval()
            scores = network(torch.empty(2, *shape))
        assert scores.shape == (2, 7), config


def test_augmentations_of_all_runs_can_be_made():
    distinct = {
        (config.augment, shape_of(config)[1:])
        for name in recipes.names()
        for config in recipe(name).runs.values()
    }
    for names, size in distinct:
        transform = augment.compose(names, size)
        if transform is not None:
            image = torch.zeros(3, *size, dtype=torch.uint8)
            assert transform(image).shape == image.shape


def test_twins_need_no_data_that_is_hard_to_come_by():
    for name in TABLES:
        for config in recipe(f"{name}-small").runs.values():
            assert (
                config.data == "mnist"
                or config.data.startswith("uci/")
                or (config.data == "cifar10" and config.data_options == {"batches": [1]})
            )


# What follows are figures of the papers.


def test_first_version_table_1():
    runs = recipe("exact-v1-table1").runs
    assert len(runs) == 4 * 4 * 2
    for variant, config in runs.items():
        data, model, loss = variant.split("-")
        assert (config.data, config.model, config.loss) == (data, model, loss)
        assert config.epochs == (500 if "cifar" in data else 90)
        assert (config.optimizer, config.momentum, config.lr) == ("sgd", 0.9, 0.5)
        assert (config.schedule, config.schedule_options["factor"]) == ("plateau", 0.3)
        assert "autoaugment" in config.augment
        assert ("flip" in config.augment) == ("cifar" in data)
        assert config.image_size == {"resnet18": 256, "efficientnet_v2_m": 256}.get(model, 32)
        assert config.head == ("predicted" if loss == "exact" else "linear")


def test_first_version_table_2_and_figure_4():
    runs = recipe("exact-v1-table2").runs
    assert len(runs) == 4 * 3 * 3
    assert {config.model for config in runs.values()} == {"wrn16_8"}
    assert runs["svhn-asam-hinge"].rho > 0
    assert runs["svhn-sgd-hinge"].rho == 0
    assert runs["svhn-adam-ce"].optimizer == "adam"
    figure = recipe("exact-v1-figure4").runs
    sizes = {c.loss_options["n"] for c in figure.values() if c.loss_options.get("method") == "genz"}
    assert (min(sizes), max(sizes)) == (1, 512)
    assert figure["cifar100-512"].rho > 0


def test_later_version_images():
    found = recipe("exact-v2-images")
    assert len(found.runs) == 4 * 3 * 7 + 7
    assert found.seeds == 5
    # Margin, last variance, learning rate and epochs of each set.
    published = {
        "mnist": (0.5, 1.0, 0.5, 150, "vgg_mnist"),
        "svhn": (10, 1.0, 1.0, 150, "wrn16_8"),
        "cifar10": (0.5, 1.0, 1.0, 500, "wrn28_10"),
        "cifar100": (5, 1.0, 1.0, 500, "wrn28_10"),
        "imagenet": (3.25, 0.00272, 0.5, 25, "resnet50"),
    }
    for data, (margin, variance, lr, epochs, model) in published.items():
        config = found.runs[f"{data}-sgd-exact"]
        loss = loss_of(config)
        assert loss.margin(0.5) == margin
        assert (loss.sigma(0.0), loss.sigma(1.0) ** 2) == pytest.approx((10.0, variance))
        assert (config.lr, config.epochs, config.model) == (lr, epochs, model)
        assert (config.batch_size, config.weight_decay, config.gradient) == (256, 1e-4, "normalize")
    assert found.runs["cifar10-asam-ce"].rho == 2.0
    assert found.runs["cifar10-adam-ce"].lr == 1e-3
    assert found.runs["mnist-adam-ce"].augment == ("affine",)


def test_later_version_tables():
    found = recipe("exact-v2-tabular")
    assert len(found.runs) == 7 * 7
    config = found.runs["car-exact"]
    assert loss_of(config).sigma == SigmaSchedule(10.0, 0.01, 16)
    assert (config.batch_size, config.epochs, config.epoch_steps) == (256, 16, 500)
    assert (config.decay, config.model_options) == ("weights", {"reference": True})
    assert set(found.search["car-exact"]["loss_options.margin"]) == {None, 0, 0.1, 0.5, 1, 5, 10}
    assert set(found.search["car-ce"]["lr"]) == {0.01, 0.05, 0.1, 0.5, 1, 5}
    assert set(found.search["car-ce"]["weight_decay"]) == {0, 1e-4, 1e-3, 1e-2, 1e-1, 1}
    assert set(found.search["car-ce"]["clip"]) == {0.01, 0.1, 1, 10}
    assert "clip" not in found.search["car-exact"]


def test_single_logit_table_1():
    found = recipe("pols-table1")
    assert len(found.runs) == 4 * 7 + 2
    for variant, config in found.runs.items():
        steps = config.epochs * config.epoch_steps
        assert steps == (6_000_000 if variant.startswith("imagenet") else 100_000)
    assert found.runs["mnist-ce"].model == "mlp500"
    assert found.runs["svhn-nce"].model == "cnn6"
    assert found.search["cifar100-batch_ce"] == {"lr": (1.0, 0.1, 0.01, 0.001)}


def test_mixing():
    first = recipe("mixing-table1")
    assert len(first.runs) == 2 * 8 * 4
    config = first.runs["cifar100-resnet20-f0-0.5"]
    assert (config.epochs, config.schedule_options["milestones"]) == (240, [120, 160, 200])
    assert (config.lr, config.weight_decay, config.momentum) == (0.1, 1e-4, 0.9)
    assert config.loss_options == {"schedule": "0-0.5"}
    cinic10 = first.runs["cinic10-resnet18-ce"]
    assert (cinic10.epochs, cinic10.schedule_options["milestones"]) == (90, [30, 60])

    second = recipe("mixing-table2")
    assert len(second.runs) == 7 * 4
    assert second.seeds == 2
    fourth = recipe("mixing-table4")
    assert len(fourth.runs) == 121 * 2 * 6
    assert fourth.search["iris-hidden-el"] == {"lr": (0.01, 0.005, 0.001)}
    iris = fourth.runs["iris-hidden-el"]
    assert (iris.epochs, iris.batch_size, iris.select) == (50, 8, "best")
    assert fourth.runs["iris-hidden-focal"].loss_options == {"gamma": 2.0, "alpha": 0.25}
    fifth = recipe("mixing-table5").runs
    assert len(fifth) == 6 * 3
    assert fifth["cifar100-resnet110-cot"].schedule_options["milestones"] == [100, 150]
    assert fifth["tiny_imagenet-resnet50-ce"].epochs == 200
    sixth = recipe("mixing-table6").runs
    assert len(sixth) == 5 * 2
    assert sixth["dropout-ce"].model_options["dropout"] == 0.2


def test_rotations_are_for_networks_above_a_million_parameters():
    for variant, config in recipe("mixing-table1").runs.items():
        if variant.startswith("cinic10") and config.loss == "ce":
            with torch.device("meta"):
                network = models.get(config.model, 10, (3, 32, 32), **config.model_options)
            many = sum(each.numel() for each in network.parameters()) > 1_000_000
            assert ("rotate" in config.augment) == many, variant


# Files of users, and errors.


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        '"""My runs."""\n'
        "from exact_torch.train import Config\n"
        'RUNS = {"a": Config(lr=0.5), "b": Config(lr=0.25)}\n'
        'SEARCH = {"lr": [0.5, 0.25]}\n'
        "SEEDS = 3\n"
    )
    mine = recipes.get(str(path))
    assert mine.runs == {"a": Config(lr=0.5), "b": Config(lr=0.25)}
    assert mine.search == {"a": {"lr": [0.5, 0.25]}, "b": {"lr": [0.5, 0.25]}}
    assert (mine.seeds, mine.doc) == (3, "My runs.")
    assert recipes.get(f"{path}/b").runs == {"b": Config(lr=0.25)}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", ValueError, "must have RUNS"),
        ("RUNS = {}", ValueError, "must have RUNS"),
        ("RUNS = {'a': 1}", TypeError, "must map names to Configs"),
        (
            "from exact_torch.train import Config; RUNS = {'': Config()}; SEARCH = 1",
            TypeError,
            "SEARCH",
        ),
        ("1 / 0", ValueError, "does not run: ZeroDivisionError"),
        ("this is no Python", ValueError, "does not run: SyntaxError"),
    ],
)
def test_files_that_are_no_recipes(tmp_path, text, error, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(error, match=message):
        recipes.get(str(path))


def test_a_file_that_is_not_there():
    with pytest.raises(ValueError, match=r"there is no recipe file 'nowhere/mine\.py'"):
        recipes.get("nowhere/mine.py")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("digit", "digits"),
        ("exact_v1_table1", "exact-v1-table1"),
        ("mixing-table1_small", "mixing-table1-small"),
        ("mnist/cee", "ce"),
        ("digits/ce", ""),
    ],
)
def test_wrong_names_have_a_nearest_one(wrong, near):
    with pytest.raises(ValueError, match=rf"did you mean {near!r}\?"):
        recipes.get(wrong)


def test_listing_imports_no_recipe():
    script = (
        "import sys; from exact_torch import recipes; recipes.names();"
        "print([name for name in sys.modules if name.startswith('exact_torch.recipes.')])"
    )
    root = Path(recipes.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_swapping_one_line_changes_nothing_else():
    runs = recipe("swap-one-line").runs
    for name, config in runs.items():
        data, _, kind = name.rpartition("-")
        head = "predicted" if kind == "head" else "linear"
        loss = "ce" if kind == "ce" else "exact"
        assert config == dataclasses.replace(runs[f"{data}-ce"], loss=loss, head=head)
        assert config.loss_options == {}


def test_default_grid_is_around_the_config():
    config = recipe("digits").runs[""]
    grid = recipes.default_grid(config)
    assert config.lr in grid["lr"]
    assert config.loss_options["margin"] in grid["loss_options.margin"]
    assert config.loss_options["sigma"] in grid["loss_options.sigma"]
    assert "loss_options.margin" not in recipes.default_grid(recipe("digits-ce").runs[""])
    plain = recipe("swap-one-line").runs["digits-exact"]
    assert "auto" in recipes.default_grid(plain)["loss_options.sigma"]
    assert recipe("digits-ce").search[""] == recipes.default_grid(recipe("digits-ce").runs[""])


def test_examples_are_left_to_learn_from_to_the_end(tmp_path):
    """With a margin that is too small all of them are beyond it, and the gradient is 0."""
    train(recipe("digits").runs[""], tmp_path, quiet=True, pictures=False)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["train"]["gradient_norm"] > 0.0 for line in lines)
