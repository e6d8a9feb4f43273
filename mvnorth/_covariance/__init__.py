"""Covariances of a batch of problems, as methods take them; each answers for itself."""
