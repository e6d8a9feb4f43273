"""torch in one thread: the tensors of the tests are small, and its threads wait by spinning."""

import torch

torch.set_num_threads(1)
