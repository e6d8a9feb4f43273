"""Problems with known answers, independent oracles, and the reports built on them."""
