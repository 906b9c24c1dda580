"""The bytes of a request's body: bounded in size and time, and parsed off the loop if large.

Nothing here runs before the token of the request has been checked. A compressed body is not
inflated: a real server takes every body as it is. A large body is parsed in a thread, one at a
time, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import web

from swell.cluster.embedded import refusals

BODY_BYTES_MAX = 3 << 20  # kube-apiserver's limit
# For a whole body: 3 MiB take this long at 100 KiB/s, which is slower than any loopback.
BODY_S_MAX = 30.0
# A body up to this size is parsed within milliseconds, and a thread would only make it slower.
PARSED_INLINE_BYTES_MAX = 32 << 10

T = TypeVar("T")
# One thread: parsers hold the interpreter's lock, so that several would only starve the loop.
_parser = ThreadPoolExecutor(max_workers=1, thread_name_prefix="body")


async def read_body(request: web.BaseRequest, limit_s: float = BODY_S_MAX) -> bytes:
    """The whole body; 413 when it is too large, 408 when it comes too slowly."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise refusals.too_large(BODY_BYTES_MAX)
    try:
        async with asyncio.timeout(limit_s):
            return await _received(request)
    except TimeoutError:
        raise refusals.body_too_slow(limit_s) from None


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
