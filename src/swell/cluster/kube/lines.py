"""Cuts a stream of pieces into lines. A line without end is an error, not a full memory."""

from __future__ import annotations

from swell.cluster.decoding import nonsense


class Lines:
    """What has come of the line that is not complete yet."""

    def __init__(self, line_bytes_max: int) -> None:
        self._max = line_bytes_max
        self._kept: list[bytes] = []
        self._n_kept = 0

    def cut(self, piece: bytes) -> list[bytes]:
        """Lines completed by a piece, without their ends; empty ones are none."""
        first, *rest = piece.split(b"\n")
        self._kept.append(first)
        self._n_kept += len(first)
        if self._n_kept > self._max:
            raise nonsense(f"a line longer than {self._max} bytes")
        if not rest:
            return []
        whole = b"".join(self._kept)
        *complete, last = rest
        self._kept, self._n_kept = [last], len(last)
        return [line for line in (whole, *complete) if line]
