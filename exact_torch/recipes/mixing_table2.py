"""Mixing CE and EL, table 2: seven networks on ImageNet, four losses.

Battash, Wolf, Hazan, Mixing between the cross entropy and the expectation loss terms (2021).
Published: the networks, 90 epochs, a learning rate of 0.1 divided by 10 after 30 and 60, random
crops of 224 x 224 and flips, all else as PyTorch's ImageNet example has it (SGD with momentum 0.9,
weight decay 1e-4, batches of 256), two seeds.  Ours: "ShuffleNet" is ShuffleNetV2 at width 1.
ImageNet is a folder of images, ``imagenet`` where you are unless ``data_options.path`` says
otherwise.

The small twin: MNIST, ``small_cnn``, 6 epochs, the rate divided after 2 and 4.
"""

from dataclasses import replace

from exact_torch.recipes.mixing_table1 import BASE, LOSSES, falling

SEEDS = 2
MODELS = (
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "shufflenet_v2_x1_0",
    "resnext50_32x4d",
    "resnext101_32x8d",
)
IMAGENET = replace(
    BASE,
    data="folder",
    data_options={"path": "imagenet", "size": 224, "resize": 256, "train_size": 320},
    augment=("resized_crop", "flip"),
    batch_size=256,
    **falling(90, 30, 60),
)
_SMALL = replace(BASE, data="mnist", augment=(), model="small_cnn", **falling(6, 2, 4))

RUNS = {
    f"{model}-{name}": replace(IMAGENET, model=model, **loss)
    for model in MODELS
    for name, loss in LOSSES.items()
}
SMALL = {f"small_cnn-{name}": replace(_SMALL, **loss) for name, loss in LOSSES.items()}
