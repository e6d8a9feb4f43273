"""EXACT with noise that classes share."""

import numpy as np
import pytest
import torch

import mvnorth
from exact_torch import CorrelatedScores, ExactLoss, GaussianHead, exact_loss, expected_accuracy


def problem(rows, classes, columns, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    labels = torch.randint(classes, (rows,), generator=generator)
    scores, loadings = draw(rows, classes), draw(rows, classes, columns)
    sigma = torch.exp(0.3 * draw(rows, classes))
    return scores.to(dtype), labels, sigma.to(dtype), loadings.to(dtype)


class TestValues:
    @pytest.mark.parametrize("columns", [1, 2])
    def test_agree_with_draws(self, columns):
        scores, labels, sigma, loadings = problem(3, 5, columns)
        prob = torch.exp(
            -exact_loss(scores, labels, sigma=sigma, loadings=loadings, reduction="none")
        )
        n, generator = 400_000, torch.Generator().manual_seed(1)
        won = torch.zeros(3, dtype=torch.float64)
        for row in range(3):
            own = torch.randn(n, 5, generator=generator, dtype=torch.float64)
            shared = torch.randn(n, columns, generator=generator, dtype=torch.float64)
            drawn = scores[row] + sigma[row] * own + shared @ loadings[row].T
            won[row] = (drawn.argmax(1) == labels[row]).double().mean()
        assert ((prob - won).abs() <= 4.0 * torch.sqrt(prob * (1.0 - prob) / n)).all()

    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_agree_with_orthants_of_the_differences(self, columns):
        scores, labels, sigma, loadings = problem(2, 5, columns)
        loss = exact_loss(scores, labels, sigma=sigma, loadings=loadings, reduction="none")
        for row in range(2):
            y = int(labels[row])
            difference = np.delete(-np.eye(5), y, axis=0)
            difference[:, y] = 1.0
            V = loadings[row].numpy()
            cov = difference @ (np.diag(sigma[row].numpy() ** 2) + V @ V.T) @ difference.T
            mean = difference @ scores[row].numpy()
            truth = mvnorth.box(0.0, np.inf, mean, cov, rtol=1e-7, method="gauss")
            assert abs(float(loss[row]) + truth.log_prob) <= 3.0 * truth.rel_error + 1e-7

    def test_without_shared_noise_are_those_of_independent_scores(self):
        scores, labels, sigma, _ = problem(6, 4, 1)
        plain = exact_loss(scores, labels, sigma=sigma, reduction="none")
        zero = exact_loss(
            scores, labels, sigma=sigma, loadings=torch.zeros(4, 2).double(), reduction="none"
        )
        torch.testing.assert_close(zero, plain, rtol=1e-9, atol=0.0)

    def test_noise_that_all_classes_share_does_not_matter(self):
        scores, labels, sigma, _ = problem(6, 4, 1)
        plain = exact_loss(scores, labels, sigma=sigma)
        same = exact_loss(scores, labels, sigma=sigma, loadings=torch.full((4, 1), 3.0).double())
        torch.testing.assert_close(same, plain, rtol=1e-9, atol=0.0)

    def test_single_precision(self):
        scores, labels, sigma, loadings = problem(4, 6, 1)
        double = exact_loss(scores, labels, sigma=sigma, loadings=loadings)
        single = exact_loss(scores.float(), labels, sigma=sigma.float(), loadings=loadings.float())
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0.0)

    def test_tiny_independent_noise_is_sampled(self):
        """The integral over the factors has walls then, and another method takes over."""
        scores, labels, _, loadings = problem(1, 5, 2)
        loss = exact_loss(scores, labels, sigma=1e-7, loadings=loadings)
        coarse = exact_loss(scores, labels, sigma=1e-2, loadings=loadings)
        assert abs(float(loss - coarse)) < 0.05

    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_ordinary_rows_are_integrated_once(self, columns, monkeypatch):
        """What meets the tolerance is not computed again by another method."""
        monkeypatch.delattr(mvnorth, "orthant_grad")
        scores, labels, sigma, loadings = problem(8, 5, columns, torch.float32)
        scores.requires_grad_()
        exact_loss(scores, labels, sigma=sigma, loadings=0.7 * loadings).backward()
        assert scores.grad.isfinite().all()

    def test_classes_that_cannot_win(self):
        scores, labels, sigma, loadings = problem(1, 5, 1)
        label = int(labels[0])
        out = (label + 1) % 5
        masked = scores.clone()
        masked[0, out] = -torch.inf
        keep = [j for j in range(5) if j != out]
        fewer = exact_loss(
            scores[:, keep], torch.tensor([keep.index(label)]), sigma=sigma[:, keep],
            loadings=loadings[:, keep],
        )  # fmt: skip
        torch.testing.assert_close(
            exact_loss(masked, labels, sigma=sigma, loadings=loadings), fewer, rtol=1e-9, atol=0.0
        )
        lost = scores.clone()
        lost[0, label] = -torch.inf
        assert exact_loss(lost, labels, sigma=sigma, loadings=loadings) == torch.inf


class TestDerivatives:
    @pytest.mark.parametrize("columns", [1, 2])
    def test_gradcheck(self, columns):
        scores, labels, sigma, loadings = problem(2, 4, columns)
        inputs = [a.requires_grad_() for a in (scores, sigma, loadings)]

        def loss(scores, sigma, loadings):
            return exact_loss(scores, labels, sigma=sigma, loadings=loadings, reduction="none")

        assert torch.autograd.gradcheck(loss, inputs, eps=1e-4, atol=1e-6, rtol=1e-5)

    def test_gradcheck_of_shared_ones_with_a_margin(self):
        scores, labels, _, loadings = problem(3, 4, 1)
        inputs = [scores.requires_grad_(), loadings[0].clone().requires_grad_()]

        def loss(scores, loadings):
            return exact_loss(
                scores, labels, sigma=0.8, loadings=loadings, objective="error", margin=0.7
            )

        assert torch.autograd.gradcheck(loss, inputs, eps=1e-5, atol=1e-6)

    def test_second_derivatives_are_refused(self):
        scores, labels, _, loadings = problem(2, 4, 1)
        scores.requires_grad_()
        loss = exact_loss(scores, labels, loadings=loadings)
        (slope,) = torch.autograd.grad(loss, scores, create_graph=True)
        with pytest.raises(NotImplementedError, match="differentiated once"):
            slope.sum().backward()


class TestTransforms:
    def test_compiled(self):
        scores, labels, sigma, loadings = problem(4, 5, 1, torch.float32)
        compiled = torch.compile(exact_loss, fullgraph=True, backend="aot_eager")
        loadings.requires_grad_()
        loss = compiled(scores, labels, sigma=sigma, loadings=loadings)
        loss.backward()
        again = loadings.detach().clone().requires_grad_()
        exact_loss(scores, labels, sigma=sigma, loadings=again).backward()
        torch.testing.assert_close(loadings.grad, again.grad)

    def test_vmap(self):
        scores, labels, sigma, loadings = problem(6, 4, 1)
        stacked = [a.unflatten(0, (2, 3)) for a in (scores, labels, sigma, loadings)]

        def loss(scores, labels, sigma, loadings):
            return exact_loss(scores, labels, sigma=sigma, loadings=loadings)

        got = torch.func.vmap(loss)(*stacked)
        slopes = torch.func.vmap(torch.func.grad(loss, 3))(*stacked)
        for k in range(2):
            some = [a[k] for a in stacked]
            torch.testing.assert_close(got[k], loss(*some))
            torch.testing.assert_close(slopes[k], torch.func.grad(loss, 3)(*some))

    def test_autocast(self):
        scores, labels, sigma, loadings = problem(3, 4, 1, torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = exact_loss(scores.bfloat16(), labels, sigma=sigma, loadings=loadings)
        assert loss.dtype == torch.float32


class TestInputs:
    def test_class_probabilities_and_smoothing(self):
        scores, labels, _, loadings = problem(3, 4, 1)
        each = torch.stack(
            [
                exact_loss(
                    scores, torch.full((3,), k), sigma=1.0, loadings=loadings, reduction="none"
                )
                for k in range(4)
            ],
            dim=1,
        )
        targets = torch.softmax(scores, 1)
        got = exact_loss(scores, targets, sigma=1.0, loadings=loadings, reduction="none")
        torch.testing.assert_close(got, (targets * each).sum(1))
        smooth = exact_loss(
            scores, labels, sigma=1.0, loadings=loadings, label_smoothing=0.2, reduction="none"
        )
        own = each.gather(1, labels[:, None])[:, 0]
        torch.testing.assert_close(smooth, 0.8 * own + 0.2 * each.mean(1))

    @pytest.mark.parametrize("shape", [(4,), (3, 1), (2, 4, 1), (4, 4), (3, 4, 4)])
    def test_wrong_shapes(self, shape):
        scores, labels, _, _ = problem(3, 4, 1)
        message = r"loadings must be \(C, r\) or \(3, C, r\) with C = 4 and r = 1, 2 or 3"
        with pytest.raises(ValueError, match=message):
            exact_loss(scores, labels, loadings=torch.zeros(shape).double())

    def test_further_dimensions(self):
        scores, labels, _, loadings = problem(6, 4, 1)
        flat = exact_loss(scores, labels, sigma=1.0, loadings=loadings, reduction="none")
        images = scores.view(2, 3, 4).movedim(2, 1)
        options = {"sigma": 1.0, "reduction": "none"}
        got = exact_loss(images, labels.view(2, 3), loadings=loadings.view(2, 3, 4, 1), **options)
        torch.testing.assert_close(got, flat.view(2, 3))
        with pytest.raises(ValueError, match=r"loadings must be \(C, r\) or \(2, 3, C, r\)"):
            exact_loss(images, labels.view(2, 3), loadings=loadings.view(3, 2, 4, 1), **options)

    def test_wrong_values_and_options(self):
        scores, labels, _, loadings = problem(3, 4, 1)
        with pytest.raises(TypeError, match=r"loadings must be a torch\.Tensor"):
            exact_loss(scores, labels, loadings=1.0)
        with pytest.raises(ValueError, match="loadings must be finite"):
            exact_loss(scores, labels, loadings=loadings * torch.nan)
        with pytest.raises(ValueError, match="loadings need k = 1"):
            exact_loss(scores, labels, loadings=loadings, k=2)
        with pytest.raises(ValueError, match="loadings need k = 1"):
            ExactLoss(loadings=loadings[0], method="genz")


class TestModules:
    def test_head_and_loss(self):
        torch.manual_seed(0)
        head = GaussianHead(5, 3, loadings=2)
        scores = head(torch.randn(4, 5))
        assert isinstance(scores, CorrelatedScores)
        assert scores.loadings.shape == (4, 3, 2)
        labels = torch.tensor([0, 1, 2, 0])
        loss = ExactLoss()(scores, labels)
        loss.backward()
        assert head.loading_weight.grad.abs().sum() > 0.0
        accuracy = expected_accuracy(scores, labels, reduction="none")
        torch.testing.assert_close(-torch.log(accuracy).mean(), loss)
        assert head.eval()(torch.randn(4, 5)).shape == (4, 3)

    def test_parameter_and_buffer(self):
        loadings = torch.randn(3, 1)
        assert dict(ExactLoss(loadings=loadings).named_buffers()).keys() == {"loadings"}
        assert len(list(ExactLoss(loadings=torch.nn.Parameter(loadings)).parameters())) == 1

    @pytest.mark.slow
    def test_planted_loadings_are_recovered(self):
        """Of V only differences between classes matter: V V^T with rows and columns centred."""
        generator = torch.Generator().manual_seed(0)
        rows, classes = 3000, 4
        planted = torch.tensor([[1.5], [1.5], [-1.5], [0.0]])
        x = torch.randn(rows, 2, generator=generator)
        means = x @ torch.randn(2, classes, generator=generator)
        noise = torch.randn(rows, classes, generator=generator)
        shared = torch.randn(rows, 1, generator=generator)
        labels = (means + noise + shared @ planted.T).argmax(1)
        weight = torch.zeros(2, classes, requires_grad=True)
        loadings = (0.1 * torch.randn(classes, 1, generator=generator)).requires_grad_()
        optimizer = torch.optim.Adam([weight, loadings], lr=0.1)
        for _ in range(80):
            optimizer.zero_grad()
            exact_loss(x @ weight, labels, sigma=1.0, loadings=loadings).backward()
            optimizer.step()

        def centred(V):
            V = V - V.mean(0)
            return (V @ V.T).detach().flatten()

        truth, found = centred(planted), centred(loadings)
        assert torch.corrcoef(torch.stack([truth, found]))[0, 1] > 0.95
        assert 0.6 < found.norm() / truth.norm() < 1.6
