"""Nodes of the trapezoidal rule and the sums over them; see factor_trapezoid.py."""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, inner, scalar
from mvnorth._cpu.factor_nodes import (
    BEND,
    FIRST,
    LEFT,
    NODES,
    NUMERATOR,
    OFFSET,
    POWER,
    RIGHT,
    SECOND,
    SLOPE,
    SLOPE_FIRST,
    SLOPE_SECOND,
    SQUARE_FIRST,
    SQUARE_LEFT,
    SQUARE_RIGHT,
    SQUARE_SECOND,
    SQUARE_TOTAL,
    STEEP,
    STEEP_TOTAL,
    STRETCH,
    TOTAL,
    TURN,
    TWIST,
    WEIGHT,
    add_moments,
    evaluate,
)
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.one_factor import map_point, node_terms


@inner(FAST)
def place_nodes(work, place, n, start, step):
    """Offsets of t = start + k step, and y' and y'' there."""
    nodes = work.nodes
    width, a, tau = place.width, place.a, place.tau
    for k in range(n):
        offset, stretch, turn = map_point(start + step * k, width, a, tau)
        nodes[OFFSET, k] = offset
        nodes[STRETCH, k] = stretch
        nodes[TURN, k] = turn


@inner(SUMS)
def fold(work, place, n, top):
    """Weights F / 2**top, and the totals with them."""
    nodes, sums = work.nodes, work.sums
    a, width = place.a, place.width
    for k in range(n):
        weight = nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k] - top)
        nodes[WEIGHT, k] = weight * nodes[STRETCH, k]
    plain = first = second = slope_first = slope_second = steep = 0.0
    square_first = square_second = square_total = 0.0
    for k in range(n):
        terms = node_terms(
            nodes[WEIGHT, k], nodes[STRETCH, k], nodes[TURN, k], nodes[OFFSET, k], nodes[SLOPE, k],
            nodes[BEND, k], nodes[TWIST, k], nodes[STEEP, k], place.z, width, a,
        )  # fmt: skip
        plain += terms[0]
        first += terms[1]
        second += terms[2]
        slope_first += terms[3]
        slope_second += terms[4]
        steep += terms[5]
        square_first += terms[6]
        square_second += terms[7]
        square_total += terms[8]
    sums[TOTAL] += plain
    sums[FIRST] += first
    sums[SECOND] += second
    sums[SLOPE_FIRST] += slope_first
    sums[SLOPE_SECOND] += slope_second
    sums[STEEP_TOTAL] += steep
    sums[SQUARE_FIRST] += square_first
    sums[SQUARE_SECOND] += square_second
    sums[SQUARE_TOTAL] += square_total


@scalar(FAST)
def note_edge(sums, side, nodes, last, before):
    """Keep what the outermost node on a side and its neighbour add to sums."""
    square = SQUARE_LEFT if side == LEFT else SQUARE_RIGHT
    sums[square] = nodes[WEIGHT, last] * nodes[STEEP, last] ** 2
    sums[square + 1] = nodes[WEIGHT, before] * nodes[STEEP, before] ** 2
    sums[side] = nodes[WEIGHT, last]
    sums[side + 1] = nodes[WEIGHT, before]
    sums[side + 2] = nodes[WEIGHT, last] * nodes[STEEP, last]
    sums[side + 3] = nodes[WEIGHT, before] * nodes[STEEP, before]


@inner(FAST)
def sweep(work, moments, place, start, step, count, top, outermost):
    """Add ``count`` nodes from t = start on; sets the power of two ``top`` if it is NaN.

    ``outermost`` has bit 1 set if no node is further left, bit 2 if none is further right.
    """
    row, nodes, mills = work.row, work.nodes, work.mills
    for begin in range(0, count, NODES):
        left = count - begin
        n = NODES if (left + 7) // 8 * 8 > NODES else (left + 7) // 8 * 8
        place_nodes(work, place, n, start + step * begin, step)
        evaluate(row, nodes, mills, n, 0.0, place.linear, place.curvature, place.single)
        for k in range(left, n):  # there the integrand may be too far out to be computed
            nodes[NUMERATOR, k] = 0.0
            nodes[POWER, k] = nodes[POWER, 0]
        if math.isnan(top):
            top = nodes[POWER, 0]
            for k in range(n):
                top = nodes[POWER, k] if nodes[POWER, k] > top else top
        fold(work, place, n, top)
        if outermost & 1 and begin == 0:
            note_edge(work.sums, np.int64(LEFT), nodes, np.int64(0), np.int64(1))
        if outermost & 2:
            note_edge(work.sums, np.int64(RIGHT), nodes, n - 1, n - 2)
        if moments is not None:
            before = nodes[NUMERATOR : STEEP + 1].copy()  # which may be lost
            add_moments(row, nodes, mills, n, 0.0, place.single, moments)
            nodes[NUMERATOR : STEEP + 1] = before
    return top
