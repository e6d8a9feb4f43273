"""Array kernels for the CPU: pure functions on arrays, without checks or random numbers."""
