# SPDX-License-Identifier: Apache-2.0
"""The servers of these tests leave nothing open that a later test would be blamed for."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from tests.notify.endpoints import Writer, raw_server


@pytest.mark.parametrize("turns", range(8))
def test_connection_that_arrives_as_its_server_ends_is_closed(turns: int) -> None:
    """*turns*: of the event loop, between the connection and the end."""

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        await reader.read()

    async def scenario() -> socket.socket:
        async with raw_server(serve) as port:
            client = socket.create_connection(("127.0.0.1", port))
            for _ in range(turns):
                await asyncio.sleep(0)
        return client

    gc.collect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with asyncio.run(scenario()):
            for _ in range(3):  # a connection is collected before its socket
                gc.collect()
    assert [str(each.message) for each in found] == []
