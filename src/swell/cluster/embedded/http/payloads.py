"""The bytes of a request's body: bounded in size and time, inflated in pieces, parsed off the loop.

Nothing here runs before the token of the request has been checked. A body in gzip or deflate is
inflated piece by piece and refused as soon as it is larger than a plain one may be. A large body is
parsed in a thread, one at a time, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import web

from swell.cluster.embedded import refusals

BODY_BYTES_MAX = 3 << 20  # kube-apiserver's limit
# For a whole body: 3 MiB take this long at 100 KiB/s, which is slower than any loopback.
BODY_S_MAX = 30.0
# The work on the loop between two chances for other requests, about a millisecond of inflating.
PIECE_BYTES = 64 << 10
# A body up to this size is parsed within milliseconds, and a thread would only make it slower.
PARSED_INLINE_BYTES_MAX = 32 << 10
# The argument of zlib that accepts the headers of gzip and of zlib.
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}

T = TypeVar("T")
# One thread: parsers hold the interpreter's lock, so that several would only starve the loop.
_parser = ThreadPoolExecutor(max_workers=1, thread_name_prefix="body")


async def read_body(request: web.BaseRequest, limit_s: float = BODY_S_MAX) -> bytes:
    """The whole body; 413 when it is too large, 408 when it comes too slowly."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise refusals.too_large(BODY_BYTES_MAX)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity", *_WINDOW_BITS}:
        raise refusals.unsupported_media(f"Content-Encoding: {encoding}", *_WINDOW_BITS)
    try:
        async with asyncio.timeout(limit_s):
            raw = await _received(request)
    except TimeoutError:
        raise refusals.body_too_slow(limit_s) from None
    return await _inflated(raw, _WINDOW_BITS[encoding]) if encoding in _WINDOW_BITS else raw


async def parsed(parse: Callable[[bytes], T], raw: bytes) -> T:
    """Parse a body: a small one here, a large one in a thread."""
    if len(raw) <= PARSED_INLINE_BYTES_MAX:
        return parse(raw)
    return await asyncio.get_running_loop().run_in_executor(_parser, parse, raw)


async def _received(request: web.BaseRequest) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise refusals.too_large(BODY_BYTES_MAX)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _inflated(raw: bytes, window_bits: int) -> bytes:
    """The plain body; 413 as soon as it is too large, 400 when it is not compressed so."""
    inflater = zlib.decompressobj(window_bits)
    parts: list[bytes] = []
    size = 0
    left = raw
    while not inflater.eof:
        try:
            part = inflater.decompress(left, PIECE_BYTES)
        except zlib.error as error:
            raise refusals.bad_request(f"the body is not compressed as it says: {error}") from error
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise refusals.too_large(BODY_BYTES_MAX)
        if not part and not left:
            raise refusals.bad_request("the compressed body ends early")
        parts.append(part)
        left = inflater.unconsumed_tail
        await asyncio.sleep(0)
    return b"".join(parts)
