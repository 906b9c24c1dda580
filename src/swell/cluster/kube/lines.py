"""Cuts a stream of chunks into lines. A line without end is an error, not a full memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from swell.cluster.decoding import nonsense


async def lines_of(chunks: AsyncIterator[bytes], line_bytes_max: int) -> AsyncIterator[bytes]:
    """Every complete line without its end; what follows the last newline is lost with its rest."""
    kept: list[bytes] = []  # the beginning of a line whose end has not come yet
    n_kept = 0
    async for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        kept.append(first)
        n_kept += len(first)
        if n_kept > line_bytes_max:
            raise nonsense(f"a line longer than {line_bytes_max} bytes")
        if not rest:
            continue
        whole = b"".join(kept)
        *complete, last = rest
        kept, n_kept = [last], len(last)
        for line in (whole, *complete):
            if line:
                yield line
