"""Losses as the tables of the papers write them, in 120 digits, an example at a time: the judge.

``LOSSES[name](z, y, **options)`` takes a list of mpmath numbers and a label, and batch losses
lists of them.  Nothing here is stable, and nothing needs to be.
"""

import functools

from mpmath import exp, linspace, log, mpf, ncdf, npdf, quad, sqrt, workdps


def numbers(logits):
    """A tensor's numbers, exactly."""
    return [[mpf(value) for value in row] for row in logits.double().tolist()]


def softmax(z):
    total = sum(exp(x) for x in z)
    return [exp(x) / total for x in z]


def sigmoids(z):
    return [1 / (1 + exp(-x)) for x in z]


def norm(v):
    return sqrt(sum(x**2 for x in v))


def others(z, y):
    return [x for j, x in enumerate(z) if j != y]


def deltas(z, y):
    return [z[y] - x for x in others(z, y)]


def cross_entropy(z, y):
    return -log(softmax(z)[y])


def expectation(z, y):
    return sum(others(softmax(z), y))  # 1 - p_y


def max_margin(z, y, gamma=1):
    return max(0, gamma - z[y] + max(others(z, y)))


def tanimoto(g, y):
    return -g[y] / (1 + norm(g) - g[y])


def bce(z, y):
    g = sigmoids(z)
    return -log(g[y]) - sum(log(s) for s in sigmoids([-x for x in others(z, y)]))


def nce(z, y, prior=None, t=25, draws=None):
    q = prior or [mpf(1) / len(z) for _ in z]
    q = [x / sum(q) for x in q]
    minus_log_rest = [log(1 + exp(x) / (t * w)) for x, w in zip(z, q, strict=True)]  # -log(1 - g)
    if draws is None:
        noise = sum(w * x for w, x in zip(q, minus_log_rest, strict=True))
    else:
        noise = sum(minus_log_rest[j] for j in draws) / mpf(len(draws))
    return log(1 + t * q[y] * exp(-z[y])) + t * noise


def batch_ce(zs, ys):
    everything = sum(exp(x) for z in zs for x in z)
    share = mpf(1) / len(zs)
    return sum(share * log(share / (exp(z[y]) / everything)) for z, y in zip(zs, ys, strict=True))


def batch_max_margin(zs, ys, gamma=1):
    pairs = list(zip(zs, ys, strict=True))
    low, high = min(z[y] for z, y in pairs), max(x for z, y in pairs for x in others(z, y))
    return (max(0, gamma - low + high) + sum(max_margin(z, y, gamma) for z, y in pairs)) / len(zs)


def focal(z, y, gamma=2, alpha=1):
    return alpha * expectation(z, y) ** gamma * cross_entropy(z, y)


def gce(z, y, q=0.7):
    return (1 - softmax(z)[y] ** q) / q


def gce_truncated(z, y, q=0.7, k=0.5):
    p = softmax(z)[y]
    return (1 - p**q) / q if p > k else (1 - mpf(k) ** q) / q


def tamed_ce(z, y, alpha=0.5):
    if alpha == 1:
        return log(1 + cross_entropy(z, y))
    return ((1 + cross_entropy(z, y)) ** (1 - alpha) - 1) / (1 - alpha)


def complement(z, y):
    q = softmax(others(z, y))
    return sum(x * log(x) for x in q)


def mpce(z, y):
    p = softmax(z)
    return -(max(p) - p[y]) * log(p[y])


def polynomial(z, y, scale=1):
    cut = [max(-1, min(1, scale * d)) for d in deltas(z, y)]
    return sum(d**3 / 4 - 3 * d / 4 + mpf(1) / 2 for d in cut)


def beta_bernoulli(z, y, prior_weight=0.5, theta=0.5, scale=1):
    chances = sigmoids([scale * d for d in deltas(z, y)])
    return -sum(log(prior_weight * theta + (1 - prior_weight) * s) for s in chances)


@functools.cache
def largest_normal(count):
    """The mean of the largest of so many standard normals."""
    return quad(lambda x: x * count * npdf(x) * ncdf(x) ** (count - 1), linspace(-14, 14, 29))


def exact(z, y):
    """The integral over the label's noise, by a trapezoidal sum that is good to 25 digits."""
    sigma = largest_normal(len(z)) * len(z) / (len(z) - 1)
    step, gaps = mpf("0.4"), [x / sigma for x in deltas(z, y)]
    low, high = 0, 2 * sum(abs(float(x)) for x in gaps)
    for _ in range(60):  # the mode: where the noise is as far out as the competitors ahead, summed
        centre = (low + high) / 2
        ahead = sum(max(0, -float(x) - centre) for x in gaps)
        low, high = (centre, high) if ahead > centre else (low, centre)
    total = mpf(0)
    for k in range(-35, 36):
        noise = centre + k * step
        term = step * npdf(noise)
        for x in gaps:
            term *= ncdf(x + noise)
        total += term
    return -log(total)


LOSSES = {
    "exact": exact,
    "ce": cross_entropy,
    "max_margin": max_margin,
    "softmax_cauchy_schwarz": lambda z, y: -log(softmax(z)[y] / norm(softmax(z))),
    "sigmoid_cauchy_schwarz": lambda z, y: -log(sigmoids(z)[y] / norm(sigmoids(z))),
    "softmax_tanimoto": lambda z, y: tanimoto(softmax(z), y),
    "sigmoid_tanimoto": lambda z, y: tanimoto(sigmoids(z), y),
    "self_norm": lambda z, y, alpha=0.1: (
        cross_entropy(z, y) + alpha * log(sum(exp(x) for x in z)) ** 2
    ),
    "nce": nce,
    "bce": bce,
    "batch_ce": batch_ce,
    "batch_max_margin": batch_max_margin,
    "expectation": expectation,
    "ce_el": lambda z, y, alpha=1, beta=1: alpha * cross_entropy(z, y) + beta * expectation(z, y),
    "focal": focal,
    "mae": lambda z, y: sum(abs((j == y) - p) for j, p in enumerate(softmax(z))),
    "gce": gce,
    "gce_truncated": gce_truncated,
    "tamed_ce": tamed_ce,
    "cot": lambda z, y: cross_entropy(z, y) + complement(z, y),
    "mpce": mpce,
    "hinge": lambda z, y, gamma=1: sum(max(0, gamma - d) for d in deltas(z, y)) / (len(z) - 1),
    "sigmoid": lambda z, y, scale=1: sum(sigmoids([-scale * d for d in deltas(z, y)])),
    "polynomial": polynomial,
    "beta_bernoulli": beta_bernoulli,
    "poly1": lambda z, y, epsilon=1: cross_entropy(z, y) + epsilon * expectation(z, y),
}

OF_A_BATCH = ("batch_ce", "batch_max_margin")


@workdps(120)
def values(name, logits, labels, **options):
    """The values of a tensor of logits: one an example, or one in all."""
    zs, ys = numbers(logits), labels.tolist()
    if name in OF_A_BATCH:
        return [LOSSES[name](zs, ys, **options)]
    return [LOSSES[name](z, y, **options) for z, y in zip(zs, ys, strict=True)]


@workdps(120)
def gradient(name, logits, labels, **options):
    """The gradient of the sum of the values, by central differences of 1e-40, as floats."""
    zs, ys = numbers(logits), labels.tolist()
    batch = name in OF_A_BATCH

    def moved(i, j, by):
        z = list(zs[i])
        z[j] += by
        if batch:
            return LOSSES[name]([*zs[:i], z, *zs[i + 1 :]], ys, **options)
        return LOSSES[name](z, ys[i], **options)

    h = mpf("1e-40")
    return [
        [float((moved(i, j, h) - moved(i, j, -h)) / (2 * h)) for j in range(len(z))]
        for i, z in enumerate(zs)
    ]
