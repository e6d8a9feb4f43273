"""Array kernels for CUDA, twins of those in ``_cpu``; imported only where a device is asked for."""
