"""What ``import exact_torch`` brings."""

import subprocess
import sys


def test_what_only_training_needs_is_imported_when_it_is_used():
    code = (
        "import sys, exact_torch\n"
        "later = ('data', 'models', 'optim', 'recipes', 'train')\n"
        "assert not any(f'exact_torch.{name}' in sys.modules for name in later)\n"
        "assert exact_torch.optim.names()[0] == 'sgd'\n"
        "assert not hasattr(exact_torch, 'nothing')\n"
        "assert 'torchvision' not in sys.modules and 'matplotlib' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
