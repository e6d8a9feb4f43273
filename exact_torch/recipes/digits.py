"""scikit-learn's 8 x 8 digits with EXACT: the first thing to try, some ten seconds of a CPU.

Ours throughout.  The loss is that of the later version of EXACT: scores normalised over the batch,
a margin, sigma falling over training, gradients normalised.  With a margin of 0.5 nearly all
examples are beyond it after few epochs and have no gradient; with 2 some are left to the end.
"""

from exact_torch.train.config import Config

RUNS = {
    "": Config(
        data="digits",
        model="small_cnn",
        loss="exact",
        loss_options={"sigma": [10.0, 1.0], "margin": 2.0, "normalize": True, "objective": "error"},
        gradient="normalize",
        lr=0.1,
        weight_decay=1e-4,
        schedule="cosine",
        epochs=20,
        batch_size=64,
    )
}
