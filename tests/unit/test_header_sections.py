# SPDX-License-Identifier: Apache-2.0
"""Header sections are kept within bounds, and only heads with their very lines have them."""

from __future__ import annotations

import pytest

from zaqar_redis.api.server.header_sections import HeaderSections


def head(value: str, line: str = "GET /health HTTP/1.1") -> bytes:
    return f"{line}\r\nHost: {value}\r\n\r\n".encode()


def add(sections: HeaderSections, data: bytes, *headers: tuple[bytes, bytes]) -> None:
    sections.add(b"GET /health HTTP/1.1", headers, data)


def test_section_is_known_until_a_thousand_others_came() -> None:
    sections = HeaderSections()
    add(sections, head("first"), (b"host", b"first"))
    assert sections.read(head("first")) == (b"GET", "/health", "", {b"host": b"first"}, b"")
    for number in range(1024):
        add(sections, head(str(number)), (b"host", b"%d" % number))
    assert sections.read(head("first")) is None
    assert sections.read(head("1023")) is not None


def test_section_that_is_known_takes_the_place_of_no_other() -> None:
    sections = HeaderSections()
    for number in range(1024):
        add(sections, head(str(number)), (b"host", b"%d" % number))
    add(sections, head("7"), (b"host", b"7"))
    assert all(sections.read(head(str(number))) for number in range(1024))


def test_long_section_is_not_kept() -> None:
    sections = HeaderSections()
    add(sections, head("x" * 4096), (b"host", b"x" * 4096))
    assert sections.read(head("x" * 4096)) is None


def test_section_of_many_headers_is_not_kept() -> None:
    sections = HeaderSections()
    headers = [(b"x%d" % number, b"y") for number in range(33)]
    lines = [b"%b: %b" % header for header in headers]
    for count, is_kept in ((32, True), (33, False)):
        data = b"\r\n".join([b"GET /health HTTP/1.1", *lines[:count], b"", b""])
        add(sections, data, *headers[:count])
        assert (sections.read(data) is not None) == is_kept


def test_head_without_headers_is_not_known() -> None:
    sections = HeaderSections()
    add(sections, b"GET /health HTTP/1.1\r\n\r\n")
    for data in (b"GET /health HTTP/1.1\r\n\r\n", b"", b"G", b"GET", b"GET /health HTTP/1.1\r\n"):
        assert sections.read(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET /health HTTP/1.1\nClient-ID: one\r\nHost: h\r\n\r\n",
        b"GET /health HTTP/1.1\r\nClient-ID: one\r\nHost: h\n\r\n\r\n",
        b"GET /health HTTP/1.1\r\nClient-ID: one\r\n two\r\nHost: h\r\n\r\n",
        b"\r\n\n\r\n\r\nGET /health HTTP/1.1\r\nClient-ID: one\r\nHost: h\r\n\r\n",
        b"\n" * 20 + b"\r\n\n\r\n\r\nGET /health HTTP/1.1\r\nClient-ID: one\r\nHost: h\r\n\r\n",
        b"\r\nGET /health HTTP/1.1\r\nClient-ID: one\r\nHost: h\r\n\r\n",
        b"GET http://h/health HTTP/1.1\r\nClient-ID: one\r\nHost: h\r\n\r\n",
    ],
)
def test_section_of_other_lines_than_those_parsed_is_not_kept(data: bytes) -> None:
    sections = HeaderSections()
    add(sections, data, (b"client-id", b"one"), (b"host", b"h"))
    rest = data.partition(b"\r\n")[2]
    for section in (rest, data, b"\n\r\n\r\n", b"Host: h\r\n\r\n"):
        assert sections.read(b"GET /health HTTP/1.1\r\n" + section) is None


def test_known_section_without_its_end_is_no_head() -> None:
    sections = HeaderSections()
    known = b"GET /health HTTP/1.1\r\nContent-Length: 38"
    add(sections, known + b"\r\n\r\n", (b"content-length", b"38"))
    # What follows the first bytes is as long as the body should be.
    assert len(known + b"x") == 38 + 3
    assert sections.read(known + b"x") is None
