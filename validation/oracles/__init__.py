"""Answers that owe nothing to mvnorth: quadrature, 40-digit arithmetic, R and scipy."""
