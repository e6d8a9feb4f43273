"""Scripts that generate the constants in ``mvnorth._tables``; run by hand, never imported."""
