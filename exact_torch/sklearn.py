"""A classifier with scikit-learn's interface, trained with EXACT or any other of the losses."""

import itertools
import math
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from exact_torch import _arguments, losses
from exact_torch.exact_module import ExactLoss
from exact_torch.train import judgement

__all__ = ["ExactClassifier"]


class ExactClassifier(ClassifierMixin, BaseEstimator):
    """A linear classifier or a multilayer perceptron for tables.

    Features are standardised, weights are trained by Adam with a learning rate that falls as a
    cosine to 0.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int
        Widths of hidden layers with ReLU; none is a linear classifier.
    loss : str
        "robust" for ``ExactLoss.robust``, which wrong labels and outliers do not dominate, or one
        of ``losses.names()``: "exact", "ce", "hinge", "gce" ...
    loss_options : mapping, optional
        Options of the loss, such as ``{"margin": 1.0}``.
    lr, weight_decay : float
        Of Adam.
    max_iter, batch_size : int
        Number of epochs, and examples of a step.
    random_state : int, RandomState or None
        Of weights and the order of examples.

    Attributes
    ----------
    classes_ : ndarray (C,)
        Labels of the classes.
    network_ : torch.nn.Module
        Standardised features to scores.
    sigma_ : float or None
        Standard deviation of the scores' noise, for ``predict_proba``; None is a softmax.
    n_features_in_, n_iter_ : int
        Number of features, and of epochs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from exact_torch.sklearn import ExactClassifier
    >>> x, y = load_iris(return_X_y=True)
    >>> model = ExactClassifier(random_state=0).fit(x, y)
    >>> model.score(x, y) > 0.95, model.predict_proba(x[:1]).shape
    (True, (1, 3))
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = (),
        loss: str = "exact",
        *,
        loss_options: Any = None,
        lr: float = 0.03,
        weight_decay: float = 0.0,
        max_iter: int = 100,
        batch_size: int = 32,
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.loss_options = loss_options
        self.lr = lr
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "ExactClassifier":
        """Train on features X (n, F) and labels y (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the classifier needs at least 2 classes, got only one class: {y[0]}")
        epochs = _arguments.whole_number("max_iter", self.max_iter, at_least=1)
        size = min(_arguments.whole_number("batch_size", self.batch_size, at_least=1), len(X))
        seed = int(check_random_state(self.random_state).randint(2**31))
        self._mean, deviation = X.mean(0), X.std(0)
        self._deviation = np.where(deviation > 1e-12 * np.abs(self._mean), deviation, 1.0)
        x, labels = self._features(X), torch.from_numpy(codes.astype(np.int64))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._train(x, labels, epochs, size)
        self.n_iter_ = epochs
        return self

    def decision_function(self, X: Any) -> Any:
        """Return the scores (n, C); of two classes how far the second leads, (n,)."""
        scores = self._scores(X).numpy().astype(np.float64)
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> Any:
        """Return the most probable classes, (n,)."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(1).numpy()]

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes with the noise of the training, (n, C)."""
        scores = self._scores(X)
        probs = judgement.probabilities(scores.double(), self.sigma_).numpy()
        return probs / probs.sum(1, keepdims=True)

    def _train(self, x: Tensor, labels: Tensor, epochs: int, size: int) -> None:
        widths = [x.shape[1], *self.hidden_layer_sizes, len(self.classes_)]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        network = nn.Sequential(*layers[:-1])
        loss = self._loss()
        parameters = [*network.parameters(), *loss.parameters()]
        optimizer = torch.optim.Adam(parameters, self.lr, weight_decay=self.weight_decay)
        passes = len(x) // size
        steps = epochs * passes
        for step in range(steps):
            if step % passes == 0:
                order = torch.randperm(len(x))
            rows = order[step % passes * size :][:size]
            optimizer.param_groups[0]["lr"] = (
                0.5 * self.lr * (1.0 + math.cos(math.pi * step / steps))
            )
            loss.set_progress(step / steps)
            for phase in loss.phases:
                optimizer.zero_grad()
                phase(network(x[rows]), labels[rows]).backward()
                optimizer.step()
        self.network_ = network.eval()
        with torch.no_grad():
            deviation = judgement.noise(loss, network(x))
        self.sigma_ = None if deviation is None else float(deviation)

    def _loss(self) -> Any:
        options = dict(self.loss_options or {})
        if self.loss == "robust":
            return ExactLoss.robust(**options)
        return losses.get(self.loss, **options)

    def _features(self, X: Any) -> Tensor:
        return torch.from_numpy((X - self._mean) / self._deviation).float()

    @torch.no_grad()
    def _scores(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores: Tensor = self.network_(self._features(X))
        return scores
