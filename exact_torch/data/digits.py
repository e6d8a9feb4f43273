"""digits: 1,797 handwritten digits of 8 by 8 pixels that come with scikit-learn: no download.

The pixels are 0..16 and are scaled to 0..255 (times 15.9375, rounded), so that they are images
like any others. There is no official test part: a fixed stratified fifth of them is held out.
"""

from pathlib import Path

import torch

from exact_torch.data.dataset import Dataset, MemorySplit, assemble, stratified


def load_digits(folder: Path, validation: float, fetch: bool) -> Dataset:
    from sklearn.datasets import load_digits as bundled

    bunch = bundled()
    pixels = torch.from_numpy(bunch.images)
    images = (pixels * (255 / 16)).round().to(torch.uint8)[:, None]
    labels = torch.from_numpy(bunch.target).long()
    rest, test = stratified(labels, 0.2)
    return assemble(
        "digits",
        "images",
        [str(digit) for digit in range(10)],
        images[rest],
        labels[rest],
        validation,
        lambda: MemorySplit(images[test], labels[test]),
    )
