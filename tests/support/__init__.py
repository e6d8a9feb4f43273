"""What tests share: problems, slow but obvious references, browsers and broken copies."""
