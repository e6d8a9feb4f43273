"""Independent blocks of a covariance, read off the zeros of a factor."""

from collections.abc import Iterator

import numpy as np


def connected_blocks(links: np.ndarray) -> Iterator[np.ndarray]:
    """Sets of rows that share columns, directly or through other rows.

    Parameters
    ----------
    links : (k, d) bool, which row has an entry in which column

    Yields
    ------
    indices of the rows of one block, in order
    """
    if len(links) and links.all(axis=0).any():  # a column that all rows have
        yield np.arange(len(links))
        return
    from scipy.sparse import block_array, csr_array
    from scipy.sparse.csgraph import connected_components

    incidence = csr_array(links.astype(np.int32))
    graph: csr_array = block_array([[None, incidence], [incidence.T, None]], format="csr")
    _, labels = connected_components(graph, directed=False)
    labels = labels[: len(links)]
    for label in np.unique(labels):
        yield np.flatnonzero(labels == label)
