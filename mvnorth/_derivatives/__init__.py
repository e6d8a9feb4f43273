"""Derivatives of orthant probabilities: one way of differentiation a file."""
