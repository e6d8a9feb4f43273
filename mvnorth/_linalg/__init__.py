"""Factorisations: the reordered triangular factor that Genz's method integrates over."""
