# SPDX-License-Identifier: Apache-2.0
"""Generated streams of requests are answered alike over both paths, and close connections alike.

More of them: set FUZZ_EXAMPLES, as tools/test --all does.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, note, settings

from tests.server import generated
from tests.server.generated import GeneratedRequest, GeneratedStream
from tests.support import servers
from tests.support.raw_http import AnswerNormalizer, RawAnswer, RawConnection, request
from tests.support.ways import ASGI, HOT

#: Examples of one run: some seconds.
_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))
#: Bytes of a request that are printed when the test fails.
_SHOWN = 1000
#: In the answers of the first and the last request, and in no other.
_FIRST, _LAST = "first-of-all", "last-of-all"


class StreamPlayer:
    """Sends streams to a service, each to a project of its own."""

    def __init__(self, service: servers.RunningService) -> None:
        self._port = service.port
        self._beside = RawConnection(service.port)

    def close(self) -> None:
        self._beside.socket.close()

    def play(self, stream: GeneratedStream, ways: list[str], *, known: bool = False) -> list[bytes]:
        """Returns all lines that are answered until the connection is closed, normalized.

        *known*: the server gets each request at once, and has read its header section before.
        """
        project = str(uuid.uuid4())
        names = self._prepare(project)
        first = request("GET", f"/v2/queues/q/messages/{_FIRST}", project)
        pieces = [first, *map(GeneratedRequest.data, stream.requests, ways)]
        for name, value in names.items():
            pieces = [piece.replace(name, value) for piece in pieces]
        whole = stream.cut_off is None
        last = [("Connection", "close")] if whole else []
        pieces.append(request("GET", f"/v2/queues/q/messages/{_LAST}", project, headers=last))
        if known:
            self._make_known(pieces)
        else:
            data = b"".join(pieces)
            places = [0, *(len(data) * cut // generated.PARTS for cut in stream.cuts), len(data)]
            pieces = [data[begin:end] for begin, end in pairwise(places)]
        with RawConnection(self._port) as connection:
            for piece in pieces:
                connection.send(piece)
                self._wait_until_read()
            if stream.cut_off is not None:
                answered = connection.until_text(_LAST.encode())
                post = request("POST", "/v2/queues/q/messages", project, b'{"messages": []}')
                connection.send(post[: stream.cut_off])
                connection.half_close()
                answered += connection.rest()
            else:
                answered = connection.rest()
        answered = answered.replace(project.encode(), b"<project>")
        return AnswerNormalizer()(answered).split(b"\r\n")

    def _prepare(self, project: str) -> dict[bytes, bytes]:
        """Posts three messages and claims one; returns what stands for the names of it all."""
        messages = b'{"messages":[{"body":1},{"body":2},{"body":3}]}'
        posted = self._ask("POST", "messages", project, messages)
        ids = posted.headers["location"].partition("ids=")[2].split(",")
        claimed = self._ask("POST", "claims?limit=1", project)
        claim = claimed.headers["location"].rpartition("/")[2]
        return {
            generated.PROJECT: project.encode(),
            generated.CLAIMED: ids[0].encode(),
            generated.FREE: ids[1].encode(),
            generated.CLAIM: claim.encode(),
        }

    def _ask(self, method: str, path: str, project: str, body: bytes = b"") -> RawAnswer:
        self._beside.send(request(method, f"/v2/queues/q/{path}", project, body))
        return self._beside.answer()

    def _make_known(self, requests: list[bytes]) -> None:
        """Sends the header sections, with their bodies, for something that changes nothing."""
        for each in requests:
            with RawConnection(self._port) as connection:
                # The first request of a connection is always parsed, and not remembered.
                connection.send(request("GET", "/health"))
                connection.answer()
                connection.send(b"GET /health HTTP/1.1\r\n" + each.partition(b"\r\n")[2])
                self._wait_until_read()

    def _wait_until_read(self) -> None:
        """Waits until the server has read what was sent: it reads in the order of sending."""
        self._beside.send(request("HEAD", "/v2/ping"))
        self._beside.answer("HEAD")


@pytest.fixture(scope="module")
def player(service: servers.RunningService) -> Iterator[StreamPlayer]:
    made = StreamPlayer(service)
    yield made
    made.close()


@settings(
    max_examples=_EXAMPLES,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(stream=generated.streams())
def test_generated_stream_is_answered_alike_over_both_ways(
    player: StreamPlayer, stream: GeneratedStream
) -> None:
    for each in stream.requests:
        note(str(each.data(HOT)[:_SHOWN]))
    hot = player.play(stream, [HOT] * len(stream.requests))
    assert player.play(stream, [ASGI] * len(stream.requests)) == hot
    assert player.play(stream, stream.ways) == hot
    assert player.play(stream, [HOT] * len(stream.requests), known=True) == hot
