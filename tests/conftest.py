"""One thread unless a test asks for more: the test machine's cores are shared."""

import os

os.environ.setdefault("MVNORTH_NUM_THREADS", "1")
