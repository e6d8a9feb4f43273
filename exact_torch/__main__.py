"""``python -m exact_torch``."""

import sys

from exact_torch.cli import main

if __name__ == "__main__":
    sys.exit(main())
