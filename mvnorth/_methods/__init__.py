"""One algorithm a file, each with the same face: problems in, ``Estimate`` out."""
