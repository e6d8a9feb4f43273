"""Stored reference values, and the scripts that made them."""
