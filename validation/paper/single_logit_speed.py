"""Single-logit classification, table 3: what computing one logit in place of k saves.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020),
section 6.3.  Measured by ``validation.benchmarks.single_logit``.
"""

from __future__ import annotations

from typing import Any

from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.reports import Results
from validation.running import Task

# Speed-ups by the exponent of the number of classes: forward passes of 32 images, Titan X.
PUBLISHED = {
    "AlexNet": {10.0: 1.04, 14.0: 1.14, 16.0: 1.59, 18.0: 5.68, 18.5: 21.38},
    "VGG-16": {10.0: 1.02, 14.0: 1.05, 16.0: 1.20, 18.0: 2.79, 18.5: 8.52},
    "Inception-v3": {10.0: 1.03, 14.0: 1.09, 16.0: 1.22, 18.0: 3.11, 18.5: 12.75},
    "ResNet-50": {10.0: 1.04, 14.0: 1.08, 16.0: 1.20, 18.0: 3.11, 18.5: 12.69},
    "ResNet-101": {10.0: 1.03, 14.0: 1.04, 16.0: 1.19, 18.0: 2.95, 18.5: 10.10},
}
EXPONENTS = (10.0, 14.0, 16.0, 18.0, 18.5)

# Which networks at which exponents, by scale. AlexNet is the published one; the perceptron is the
# network of their MNIST runs, the convolutional one that of their CIFAR runs.
MEASURED: dict[str, dict[str, tuple[float, ...]]] = {
    "small": {"perceptron": (10.0, 14.0)},
    "quick": {"perceptron": EXPONENTS},
    "full": {"perceptron": EXPONENTS, "convolutional": EXPONENTS, "AlexNet": EXPONENTS},
}
REPEATS = 5


def network(name: str) -> tuple[Any, tuple[int, ...], int]:
    """Layers below the last one, shape of an example, inputs of the last layer."""
    from torch import nn

    from exact_torch import models
    from validation.benchmarks import single_logit

    if name == "perceptron":
        return single_logit.perceptron(), (784,), 500
    if name == "convolutional":
        return single_logit.convolutional(), (3, 32, 32), 1024
    body = models.get(name.lower(), 2, (3, 224, 224), head=lambda inputs, outputs: nn.Identity())
    return body, (3, 224, 224), 4096


def measure(name: str, exponent: float) -> dict[str, Any]:
    """Seconds of a forward pass with one logit and with 2^exponent, and the work of both."""
    import torch

    from validation.benchmarks import single_logit

    torch.manual_seed(0)
    body, shape, width = network(name)
    classes = round(2**exponent)
    if not single_logit.fits(classes, width, "cpu"):
        return {"classes": classes, "one": None, "all": None, "ratio": None, "work": None}
    found = single_logit.measure((name, body, shape, width), classes, REPEATS, "cpu")
    below = _operations(body, shape)
    found["work"] = (below + 2 * width * classes) / (below + 2 * width)
    return found


def same_logit(classes: int) -> float:
    """How far a network with one output is from that logit of the whole one: the largest share."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    body, shape, width = network("perceptron")
    every, one = nn.Linear(width, classes), nn.Linear(width, 1)
    chosen = classes // 3
    with torch.no_grad():
        one.weight.copy_(every.weight[chosen : chosen + 1])
        one.bias.copy_(every.bias[chosen : chosen + 1])
        features = body.eval()(torch.randn(32, *shape))
        logits = every(features)
        apart = (one(features)[:, 0] - logits[:, chosen]).abs().max()
    return float(apart / logits.abs().max())


def tasks(scale: str) -> list[Task]:
    """Times, a task each, and whether both ways give the same logit."""
    timed = [
        Task(_name(name, exponent), measure, {"name": name, "exponent": exponent}, alone=True)
        for name, exponents in MEASURED[scale].items()
        for exponent in exponents
    ]
    return [Task("same logit", same_logit, {"classes": 1000}), *timed]


def section(results: Results, scale: str) -> Section:
    """The published table with ours beside it."""
    measured = {
        name: {e: results[_name(name, e)] for e in exponents if _name(name, e) in results}
        for name, exponents in MEASURED[scale].items()
    }
    parts: list[Part] = [
        Text(
            "The time of a forward pass with all k logits over that with a single one: what "
            "single-logit classification saves. Published with five image networks on a Titan X; "
            "ours on one thread of this machine's CPU, random weights and input, batches of 32, "
            f"the fastest of {REPEATS} runs taken in turn. The published times jump at the end: "
            "1.4 times as many classes take 3 to 4 times as long. " + _said(measured)
        ),
        _table(measured),
        _picture(measured),
        *_checks(results, measured),
    ]
    if "AlexNet" not in measured:
        parts.append(
            NotRun(
                "AlexNet, and the convolutional network of the paper's CIFAR runs",
                "They take two minutes in which nothing else can run.",
                "python -m validation paper --full",
            )
        )
    parts.append(
        NotRun(
            "VGG-16, Inception-v3, ResNet-50 and ResNet-101, and a GPU",
            "A forward pass of 32 images takes a CPU up to ten seconds. On a GPU this measures "
            "the perceptron, the convolutional network, and the last layer of 2048 inputs alone.",
            "python -m validation.benchmarks.single_logit --device cuda --full",
        )
    )
    return Section("Single logits, table 3: speed-up", parts)


def _said(measured: dict[str, dict[float, dict[str, Any]]]) -> str:
    """What came out at the largest number of classes of each network."""
    said = []
    for name, found in measured.items():
        there = {e: line for e, line in found.items() if line["ratio"] is not None}
        if there:
            line = there[max(there)]
            said.append(
                f"{name} at 2^{max(there):g} classes: x{line['ratio']:.3g} (operations "
                f"x{line['work']:.3g})"
            )
    return "Here: " + "; ".join(said) + "." if said else ""


def _table(measured: dict[str, dict[float, dict[str, Any]]]) -> Table:
    rows: list[list[Any]] = []
    for name, found in measured.items():
        for exponent, line in found.items():
            theirs = PUBLISHED.get(name, {}).get(exponent)
            spread = [values[exponent] for values in PUBLISHED.values()]
            rows.append(
                [
                    name,
                    f"2^{exponent:g}",
                    theirs,
                    f"{min(spread):g} to {max(spread):g}",
                    line["ratio"],
                    line["work"],
                    None if line["one"] is None else 1e3 * line["one"],
                    None if line["all"] is None else 1e3 * line["all"],
                ]
            )
    return Table(
        "Speed-up by a single logit",
        [
            "network",
            "classes",
            "published, this network",
            "published, all five",
            "ours",
            "operations, all / one",
            "one logit, ms",
            "all, ms",
        ],
        rows,
        "Operations: how many more a pass takes with all logits; times would have this ratio if "
        "all operations took the same time. Empty: the weights would take more than half of the "
        "free memory.",
    )


def _picture(measured: dict[str, dict[float, dict[str, Any]]]) -> Picture:
    figure, ax = axes(log="y", xlabel="log2 of the number of classes", ylabel="all / one")
    rows: list[list[Any]] = []
    for name, values in PUBLISHED.items():
        ax.plot(list(values), list(values.values()), "--", color="C7", linewidth=1)
        rows += [["published", name, exponent, value] for exponent, value in values.items()]
    ax.plot([], [], "--", color="C7", linewidth=1, label="published, five networks")
    for colour, (name, found) in enumerate(measured.items()):
        values = {e: line["ratio"] for e, line in found.items() if line["ratio"] is not None}
        ax.plot(list(values), list(values.values()), "o-", color=f"C{colour}", label=name)
        rows += [["ours", name, exponent, value] for exponent, value in values.items()]
    ax.legend()
    return Picture(
        "Speed-up by a single logit against classes",
        figure,
        Table("", ["whose", "network", "log2 of classes", "all / one"], rows),
        "Of our networks the perceptron is the smallest, so that its last layer counts most.",
    )


def _checks(results: Results, measured: dict[str, dict[float, dict[str, Any]]]) -> list[Check]:
    checks = []
    if "same logit" in results:
        apart = results["same logit"]
        checks.append(
            Check(
                "The network that computes one logit of 1000 computes the same number: they agree "
                "to 1e-5 of the largest logit (single precision, sums in another order).",
                apart < 1e-5,
                f"{apart:.1e}",
            )
        )
    found = {
        exponent: line["ratio"]
        for exponent, line in measured["perceptron"].items()
        if line["ratio"] is not None
    }
    if len(found) > 1:
        low, high = min(found), max(found)
        checks.append(
            Check(
                "The speed-up grows with the number of classes: from the smallest number to the "
                "largest that of the perceptron grows more than threefold (a busy machine found "
                "15 times to 2^14, and 500 times to 2^18.5).",
                found[high] > 3 * found[low],
                f"x{found[low]:.2g} at 2^{low:g}, x{found[high]:.3g} at 2^{high:g}",
            )
        )
    last = measured.get("AlexNet", {}).get(18.5, {}).get("ratio")
    if last is not None:
        checks.append(
            Check(
                "AlexNet with 2^18.5 classes takes more than 1.3 times as long as with one (a busy "
                "machine found 4 times).",
                last > 1.3,
                f"x{last:.3g}; published x{PUBLISHED['AlexNet'][18.5]:g}, on a GPU",
            )
        )
    return checks


def _operations(body: Any, shape: tuple[int, ...]) -> int:
    """Floating-point operations of the layers below the last one, for one example."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        body.eval()(torch.zeros(2, *shape))
    return counter.get_total_flops() // 2


def _name(network: str, exponent: float) -> str:
    return f"{network}, 2^{exponent:g}"
