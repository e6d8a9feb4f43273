"""scikit-learn's 8 x 8 digits with the hinge loss: beside ``digits``, the same but for the loss."""

from dataclasses import replace

from exact_torch.recipes import digits

RUNS = {"": replace(digits.RUNS[""], loss="hinge", loss_options={}, gradient="none")}
