"""Configs and the settings that change them."""

import dataclasses
import json

import pytest

from exact_torch.train import Config, with_settings


def test_json_round_trip():
    config = Config(
        augment=("flip", "crop"),
        loss_options={"sigma": [10.0, 0.1], "margin": None},
        betas=(0.8, 0.99),
        image_size=32,
    )
    text = json.dumps(config.to_json())
    assert Config.from_json(json.loads(text)) == config


def test_settings_take_the_types_of_the_fields():
    config = with_settings(
        Config(loss_options={"margin": 1.0, "normalize": True}),
        [
            "lr=1",
            "epochs=3",
            "loss=exact",
            'augment=["flip"]',
            "image_size=none",
            "compile=true",
            "loss_options.margin=0.5",
            "loss_options.sigma=[10, 0.01, 16]",
        ],
    )
    assert config.lr == 1.0
    assert isinstance(config.lr, float)
    assert (config.epochs, config.loss, config.augment) == (3, "exact", ("flip",))
    assert config.image_size is None
    assert config.compile is True
    assert config.loss_options == {"margin": 0.5, "normalize": True, "sigma": [10, 0.01, 16]}


def test_none_is_a_word_where_words_are_taken():
    settings = ["gradient=none", 'loss="ce"', "loss_options.margin=none"]
    config = with_settings(Config(gradient="clip"), settings)
    assert (config.gradient, config.loss, config.loss_options) == ("none", "ce", {"margin": None})


def test_a_config_is_a_mapping():
    with pytest.raises(TypeError, match="mapping of settings, got 5"):
        Config.from_json(5)  # type: ignore[arg-type]


def test_options_of_one_command_add_up():
    settings = ["loss_options.margin=1", "loss_options.objective=error"]
    assert with_settings(Config(), settings).loss_options == {"margin": 1, "objective": "error"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epoch=3", "did you mean 'epochs'"),
        ("epochs", "key=value"),
        ("epochs=many", "whole number"),
        ("epochs=1.5", "whole number"),
        ("epochs=0", "epochs"),
        ("lr=fast", "lr must be a number"),
        ("lr=0", "lr must be a finite number > 0"),
        ("compile=1", "true or false"),
        ("augment=flip", "augment must be a list"),
        ("augment=[1]", "each of augment"),
        ("optimizer=lion", "'sgd', 'adam', 'adamw'"),
        ("loss_options=3", "mapping"),
        ("lr.factor=3", "lr has no options"),
        ("validation=1", "validation"),
        ("accumulate=3", "multiple of accumulate"),
    ],
)
def test_settings_that_make_no_sense(setting, message):
    with pytest.raises((ValueError, TypeError), match=message):
        with_settings(Config(batch_size=128), [setting])


def test_settings_that_do_not_go_together():
    with pytest.raises(ValueError, match='for loss="exact"'):
        Config(head="predicted", loss="ce")
    with pytest.raises(ValueError, match="validation set"):
        Config(select="best", validation=0.0)


def test_a_config_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().lr = 1.0  # type: ignore[misc]


def test_another_loss_begins_without_the_options_of_the_one_before():
    config = Config(
        head="predicted",
        loss_options={"sigma": 2.0, "margin": 1.0},
        model_options={"width": 4},
        schedule="cosine",
        schedule_options={"warmup": 1},
    )
    changed = with_settings(config, ["loss_options.gamma=3", "loss=focal"])
    assert (changed.loss, changed.loss_options, changed.head) == ("focal", {"gamma": 3}, "linear")
    assert changed.model_options == {"width": 4}
    assert with_settings(config, ["loss=exact"]) == config  # it is not another
    assert with_settings(config, ["schedule=constant"]).schedule_options == {}
    assert with_settings(config, ["model=linear"]).model_options == {}
    assert with_settings(config, ["lr=0.5"]).loss_options == config.loss_options
