"""The classifier for scikit-learn: its checks, its losses, its probabilities."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from exact_torch import argmax_probs, losses
from exact_torch.sklearn import ExactClassifier


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        ExactClassifier(max_iter=30, random_state=0),
        ExactClassifier((8,), loss="robust", max_iter=40, random_state=0),
    ]
)
def test_scikit_learn_takes_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", [*losses.names(), "robust"])
def test_every_loss(loss):
    x, y = load_iris(return_X_y=True)
    model = ExactClassifier(loss=loss, max_iter=150, random_state=0).fit(x, y)
    # These two have no gradient where they are very wrong, and stay there on this set.
    assert model.score(x, y) > 0.85 or loss in ("sigmoid_tanimoto", "gce_truncated")
    probs = model.predict_proba(x)
    np.testing.assert_allclose(probs.sum(1), 1.0)
    np.testing.assert_array_equal(model.classes_[probs.argmax(1)], model.predict(x))


def test_hidden_layers_bend_the_boundary():
    x, y = make_moons(400, noise=0.1, random_state=0)
    names = np.array(["first", "second"])[y]
    flat = ExactClassifier(random_state=0).fit(x, names)
    bent = ExactClassifier((32,), random_state=0).fit(x, names)
    assert flat.score(x, names) < 0.92 < 0.98 < bent.score(x, names)


def test_probabilities_are_those_of_the_noise():
    x, y = load_iris(return_X_y=True)
    model = ExactClassifier(random_state=0, loss_options={"sigma": 2.0}).fit(x, y)
    assert model.sigma_ == 2.0
    expected = argmax_probs(torch.from_numpy(model.decision_function(x)), 2.0)
    np.testing.assert_allclose(model.predict_proba(x), expected.numpy(), atol=1e-6)
    assert ExactClassifier(loss="ce", max_iter=2).fit(x, y).sigma_ is None


def test_same_seed_same_model_and_torch_is_left_alone():
    x, y = load_iris(return_X_y=True)
    state = torch.random.get_rng_state()
    first, second = (ExactClassifier(max_iter=5, random_state=3).fit(x, y) for _ in range(2))
    np.testing.assert_array_equal(first.decision_function(x), second.decision_function(x))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_in_a_pipeline_and_a_search():
    x, y = load_iris(return_X_y=True)
    grid = {"exactclassifier__loss": ["exact", "ce"]}
    pipeline = make_pipeline(PolynomialFeatures(2), ExactClassifier(max_iter=20, random_state=0))
    search = GridSearchCV(pipeline, grid, cv=2).fit(x, y)
    assert search.best_score_ > 0.9


def test_robust_loss_is_not_moved_by_one_sided_wrong_labels():
    """Of one class 40 % have the other's label: the most accurate boundary stays where it is."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2))
    truth = (x[:, 0] > 0).astype(int)
    labels = np.where(rng.random(2000) < 0.4, 0, truth)
    scores = {
        loss: ExactClassifier(loss=loss, max_iter=40, batch_size=128, random_state=0)
        .fit(x, labels)
        .score(x, truth)
        for loss in ("robust", "ce", "exact")
    }
    assert scores["robust"] > 0.93
    assert scores["robust"] > scores["ce"] + 0.1
    assert scores["robust"] > scores["exact"] + 0.1
