"""Probit models: several binary outcomes, and the choice among several alternatives."""
