"""Step times of shapes that were not measured, linearly between those that were.

Every (nodes, replicas) was measured at the same local batch sizes. So times are taken linearly in
the batch size first, and then over a triangulation of (nodes, replicas).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations

import numpy as np

from swell.autoscaler.goodput.stepmodel import Floats


class Mesh:
    """A piecewise linear function of (nodes, replicas, local batch) with two values."""

    def __init__(self, points: Mapping[tuple[int, int, int], tuple[float, float]]) -> None:
        columns: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
        for (nodes, size, batch), (step, sync) in points.items():
            columns.setdefault((nodes, size), []).append((batch, step, sync))
        self._columns = {at: np.array(sorted(rows)).T for at, rows in columns.items()}
        self._at: dict[tuple[int, int], tuple[tuple[tuple[int, int], float], ...]] = {}

    def at(self, nodes: int, size: int, batch: float) -> tuple[float, float]:
        """Returns step and synchronisation time; beyond what was measured, that of the nearest."""
        key = (nodes, size)
        if key not in self._at:
            self._at[key] = self._corners(key)
        step = sync = 0.0
        for corner, share in self._at[key]:
            batches, steps, syncs = self._columns[corner]
            step += share * float(np.interp(batch, batches, steps))
            sync += share * float(np.interp(batch, batches, syncs))
        return step, sync

    def _corners(self, key: tuple[int, int]) -> tuple[tuple[tuple[int, int], float], ...]:
        if key in self._columns:
            return ((key, 1.0),)
        point = np.array(key, np.float64)
        for triangle in triangulate(tuple(sorted(self._columns))):
            shares = _barycentric(np.array(triangle, np.float64), point)
            if shares is not None and (shares >= -1e-9).all():
                return tuple(
                    (corner, float(share)) for corner, share in zip(triangle, shares, strict=True)
                )
        nearest = min(
            self._columns, key=lambda one: (one[0] - key[0]) ** 2 + (one[1] - key[1]) ** 2
        )
        return ((nearest, 1.0),)


@lru_cache(maxsize=8)
def triangulate(points: tuple[tuple[int, int], ...]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Returns Delaunay triangles of points in the plane: no circle of one holds a point."""
    table = np.array(points, np.float64)
    chosen = np.array(list(combinations(range(len(points)), 3)))
    a, b, c = (table[chosen[:, corner]] for corner in range(3))
    (bx, by), (cx, cy) = (b - a).T, (c - a).T
    area = 2 * (bx * cy - by * cx)
    is_flat = np.abs(area) < 1e-9
    area = np.where(is_flat, 1.0, area)
    b2, c2 = bx**2 + by**2, cx**2 + cy**2
    offset = np.stack([cy * b2 - by * c2, bx * c2 - cx * b2], axis=1) / area[:, None]
    centre, radius2 = a + offset, (offset**2).sum(axis=1)
    is_empty = ~is_flat
    for point in table:
        is_empty &= ((centre - point) ** 2).sum(axis=1) >= radius2 * (1 - 1e-9)
    return tuple(tuple(points[at] for at in corners) for corners in chosen[is_empty])


def _barycentric(corners: Floats, point: Floats) -> Floats | None:
    matrix = np.vstack([corners.T, np.ones(3)])
    if abs(np.linalg.det(matrix)) < 1e-9:
        return None
    shares: Floats = np.linalg.solve(matrix, np.array([*point, 1.0]))
    return shares
