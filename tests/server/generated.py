# SPDX-License-Identifier: Apache-2.0
"""Generated streams of requests: most of them valid, for hot routes."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from tests.support.raw_http import CLIENT, chunked
from tests.support.ways import WAYS

#: In their place stand the ids that each project has.
FREE, CLAIMED, CLAIM = b"<free message>", b"<claimed message>", b"<claim>"
PROJECT = b"<project>"

#: Characters of a queue's name.
_NAME_MAX = 64


class GeneratedRequest(NamedTuple):
    #: request line and headers, without the empty line
    lines: tuple[bytes, ...]
    body: bytes

    def data(self, way: str) -> bytes:
        # A second expectation would replace one that the server knows.
        more = () if b"Expect: 100-continue" in self.lines else WAYS[way].items()
        added = (f"{name}: {value}".encode() for name, value in more)
        return b"\r\n".join([*self.lines, *added, b"", self.body])


class GeneratedStream(NamedTuple):
    """What a client sends on one connection."""

    requests: list[GeneratedRequest]
    #: of each request, where both paths are taken
    ways: list[str]
    #: where it is split, in parts of `PARTS`
    cuts: list[int]
    #: bytes of a last request that is cut off, after which the client half closes; None: its last
    #: request is whole, and asks to close
    cut_off: int | None


#: Bytes over the limits of claims and of posts.
_TOO_LARGE = (65_536, 262_144)

PARTS = 10_000
#: Less than any post has, so that it is cut off.
CUT_MAX = 150

_SELDOM = st.integers(0, 9).map(lambda number: number == 9)


def _mostly(usual: st.SearchStrategy[bytes], *unusual: bytes) -> st.SearchStrategy[bytes]:
    return st.one_of(usual, usual, usual, usual, st.sampled_from(unusual))


_QUEUES = _mostly(
    st.just(b"q"),
    *(b"r", b"q.-_", b"n" * _NAME_MAX, b"n" * (_NAME_MAX + 1), b"", b"..", b"%71", b"%2F", b"q%"),
    *(b"a%20b", "ü".encode(), b"\xff", b"q#", b"q?", b"{queue}", b"q q"),
)
_IDS = st.sampled_from(
    [FREE, FREE, CLAIMED, CLAIM, b"x", b"0" * 32, b"x" * 64, b"x" * 65, b"", b"%", b"a,b"]
)
_NUMBERS = _mostly(
    st.sampled_from([b"1", b"2", b"10"]), b"0", b"-1", b"x", b"", b"21", b"9" * 30, b"+1", b"%31"
)
_BOOLEANS = st.sampled_from([b"true", b"false", b"1", b"", b"maybe", b"True"])
#: No long polls: the second, that they would take, adds up.
_WAITS = st.sampled_from([b"0", b"0", b"-1", b"x", b"31", b""])
_LISTS = st.lists(_IDS, max_size=3).map(b",".join)
_PARAMETERS = st.one_of(
    *(
        st.tuples(st.sampled_from(names), values).map(b"=".join)
        for names, values in (
            ([b"limit", b"pop"], _NUMBERS),
            (
                [b"echo", b"include_claimed", b"include_delayed", b"detailed", b"with_count"],
                _BOOLEANS,
            ),
            ([b"wait"], _WAITS),
            ([b"marker", b"claim_id"], _IDS),
            ([b"ids", b"claim_ids"], _LISTS),
        )
    ),
    st.sampled_from(
        [b"", b"=", b"echo", b"?", b"#", b"limit=1#x", b"%00", b"\xe9", b"a;b", b"%zz"]
    ),
)
_QUERIES = st.one_of(
    st.just(b""), st.lists(_PARAMETERS, max_size=4).map(lambda given: b"?" + b"&".join(given))
)

_MESSAGES = [b"/v2/queues/", b"/messages"]
_CLAIMS = [b"/v2/queues/", b"/claims"]


def _paths(frame: list[bytes]) -> st.SearchStrategy[bytes]:
    return _QUEUES.map(lambda queue: queue.join(frame))


def _below(frame: list[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(_paths(frame), _IDS).map(b"/".join)


_QUEUE = [b"/v2/queues/", b""]
_PROBES = st.sampled_from([b"/v2/ping", b"/health", b"/healthcheck"])
_TARGETS = st.one_of(
    *(
        st.tuples(st.just(method), paths)
        for method, paths in (
            (b"POST", _paths(_MESSAGES)),
            (b"POST", _paths(_MESSAGES)),
            (b"GET", _paths(_MESSAGES)),
            (b"DELETE", _paths(_MESSAGES)),
            (b"GET", _below(_MESSAGES)),
            (b"DELETE", _below(_MESSAGES)),
            (b"POST", _paths(_CLAIMS)),
            (b"PATCH", _below(_CLAIMS)),
            (b"GET", _below(_CLAIMS)),
            (b"DELETE", _below(_CLAIMS)),
            (b"PUT", _paths(_QUEUE)),
            (b"PUT", st.just(b"/v2/queues/new")),
            (b"GET", _paths(_QUEUE)),
            (b"DELETE", _paths(_QUEUE)),
            (b"GET", _paths([b"/v2/queues/", b"/stats"])),
            (b"GET", st.just(b"/v2/queues")),
            (b"GET", _PROBES),
        )
    ),
    st.tuples(
        st.sampled_from([b"HEAD", b"OPTIONS", b"PUT", b"PATCH", b"TRACE", b"get", b"BREW"]),
        st.one_of(_paths(_MESSAGES), _PROBES),
    ),
    st.tuples(
        st.just(b"GET"),
        st.sampled_from(
            [b"/", b"*", b"http://h/v2/ping", b"//v2/ping", b"/v2/ping/", b"/v2/queues/", b""]
        ),
    ),
)
_VERSIONS = _mostly(st.just(b"HTTP/1.1"), b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"")

_DOCUMENTS = st.one_of(
    st.lists(
        st.sampled_from(
            [b'{"body":1}', b'{"body":"\xc3\xa9","ttl":60}', b'{"body":{},"delay":90}', b"{}", b"1"]
        ),
        min_size=1,
        max_size=3,
    ).map(lambda found: b'{"messages":[%b]}' % b",".join(found)),
    st.sampled_from(
        [
            *(b"", b"", b"{}", b'{"ttl":60}', b'{"ttl":60,"grace":60}', b'{"ttl":1}', b"[]"),
            *(b'{"_max_messages_post_size":100}', b'{"_default_message_ttl":"x"}', b'{"a":[1]}'),
            *(b"{", b"\xff", b"null", b'{"messages":[]}', b'{"messages":[{"body":1}]', b" {} "),
            *(b'{"messages":[{"body":"%b"}]}' % (b"x" * size) for size in _TOO_LARGE),
        ]
    ),
)
_IDENTITIES = _mostly(
    st.just(b"Client-ID: %b\r\nX-Project-ID: %b" % (CLIENT.encode(), PROJECT)),
    b"Client-ID: " + CLIENT.encode(),
    b"X-Project-ID: " + PROJECT,
    b"client-id: x\r\nx-project-id: " + PROJECT,
    b"CLIENT-ID:%b\r\nX-TENANT:%b" % (CLIENT.encode(), PROJECT),
    b"Client-ID: %b\r\nX-Project-ID: a\r\nX-Project-ID: %b" % (CLIENT.encode(), PROJECT),
    b"Client-ID: %b\r\nX-Project-ID: %b\r\nX-Project-ID: %b" % (CLIENT.encode(), PROJECT, PROJECT),
    b"Client-ID: %b\r\nX-Project-ID:" % CLIENT.encode(),
)
_HEADERS = st.sampled_from(
    [
        b"Accept: */*",
        b"Accept: application/json",
        b"Accept: text/html",
        b"Accept: application/json;q=0",
        b"Accept:",
        b"Content-Type: application/json",
        b"Content-Type: text/plain",
        b"Content-Type: application/x-www-form-urlencoded",
        b"Idempotency-Key: one",
        b"Idempotency-Key: two",
        b"Idempotency-Key:",
        b"Idempotency-Key: " + b"k" * 300,
        b"Content-Encoding: identity",
        b"Content-Encoding: gzip",
        b"Connection: keep-alive",
        b"Connection: Keep-Alive, x",
        b"URL-Signature: x",
        b"X-Empty:",
        b"x-\xc3\xa9: 1",
        b"X-Binary: \xff\xfe",
        b"X-Long: " + b"x" * 8000,
    ]
)
#: After most of these the server reads no further request.
_ENDINGS = st.sampled_from(
    [
        *(b"Connection: close", b"connection: CLOSE", b"Connection: close, keep-alive"),
        *(b"Upgrade: h2c", b"Host: two", b"No colon", b": no name", b"Space : x", b" folded: x"),
        *(b"X-Nul: \x00", b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length: -1"),
        b"Content-Length: 99999999999999999999999",
        *(b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Transfer-Encoding: gzip"),
    ]
)


@st.composite
def _framed(draw: st.DrawFn, body: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """Draws headers that tell where the body ends, and its bytes."""
    rare = ["chunked", "coded", "expected", "short", "zero", "bad", "upgrade"]
    kind = draw(st.sampled_from(["length"] * 8 + rare))
    length = b"Content-Length: %d" % len(body)
    if kind == "upgrade" and body:  # without one, the parser drops what comes with the head
        return (b"Connection: Upgrade", b"Upgrade: h2c", length), body
    if kind in ("chunked", "coded"):
        half = len(body) // 2
        data = chunked(*filter(None, (body[:half], body[half:])))
        codings = b"gzip, chunked" if kind == "coded" else b"chunked"
        return (b"Transfer-Encoding: " + codings,), data
    if kind == "expected":
        return (b"Expect: 100-continue", length), body
    if kind == "short" and len(body) > 1:  # its last byte begins no request
        return (b"Content-Length: %d" % (len(body) - 1),), body
    if kind == "bad":
        return (b"Transfer-Encoding: chunked",), b"xyz\r\n"
    return ((length,) if body or kind == "zero" else ()), body


@st.composite
def _requests(draw: st.DrawFn) -> GeneratedRequest:
    method, path = draw(_TARGETS)
    has_body = method in (b"POST", b"PATCH", b"PUT") or draw(_SELDOM)
    framing, body = draw(_framed(draw(_DOCUMENTS) if has_body else b""))
    headers = [*framing, *draw(st.lists(_HEADERS, max_size=2, unique=True))]
    if draw(_SELDOM):
        headers.append(draw(_ENDINGS))
    first = b" ".join([method, path + draw(_QUERIES), draw(_VERSIONS)])
    lines = (first, b"Host: h", draw(_IDENTITIES), *draw(st.permutations(headers)))
    return GeneratedRequest(lines, body)


@st.composite
def streams(draw: st.DrawFn) -> GeneratedStream:
    requests = draw(st.lists(_requests(), min_size=1, max_size=6))
    return GeneratedStream(
        requests,
        [draw(st.sampled_from(list(WAYS))) for _ in requests],
        sorted(draw(st.lists(st.integers(1, PARTS - 1), max_size=3, unique=True))),
        draw(st.integers(1, CUT_MAX)) if draw(_SELDOM) else None,
    )
