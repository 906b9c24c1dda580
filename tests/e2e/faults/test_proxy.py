"""The proxy before a server that packs its answers, as kube-apiserver packs large ones."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest
from aiohttp import web

from tests.e2e.faults.proxy import Spoiler, proxied

pytestmark = pytest.mark.long

ITEMS = [{"metadata": {"name": f"disk-{at}"}} for at in range(2000)]


async def _listed(_: web.Request) -> web.Response:
    answer = web.json_response({"items": ITEMS})
    answer.enable_compression()  # for whoever says that it can unpack it
    return answer


def test_client_that_cannot_unpack_can_read_a_large_list() -> None:
    async def main() -> object:
        app = web.Application()
        app.router.add_get("/{path:.*}", _listed)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            server_url = f"http://{host}:{port}"
            async with (
                proxied(server_url, ssl.create_default_context(), Spoiler()) as address,
                aiohttp.ClientSession(
                    auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
                ) as session,
                session.get(f"{address}/api/v1/persistentvolumes") as answer,
            ):
                return await answer.json()
        finally:
            await runner.cleanup()

    assert asyncio.run(main()) == {"items": ITEMS}
