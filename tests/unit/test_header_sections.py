# SPDX-License-Identifier: Apache-2.0
"""Header sections are kept within bounds, and only heads with their very lines have them."""

from __future__ import annotations

from zaqar_redis.api.server.header_sections import HeaderSections


def head(value: str) -> bytes:
    return f"GET /health HTTP/1.1\r\nHost: {value}\r\n\r\n".encode()


def test_section_is_read_until_a_thousand_others_came() -> None:
    sections = HeaderSections()
    sections.add(head("first"), {b"host": b"first"})
    assert sections.read(head("first")) == (b"GET", "/health", "", {b"host": b"first"}, b"")
    for number in range(1024):
        sections.add(head(str(number)), {b"host": b"%d" % number})
    assert sections.read(head("first")) is None
    assert sections.read(head("1023")) is not None


def test_long_section_is_not_kept() -> None:
    sections = HeaderSections()
    sections.add(head("x" * 4096), {b"host": b"x" * 4096})
    assert sections.read(head("x" * 4096)) is None


def test_head_without_headers_is_not_kept() -> None:
    sections = HeaderSections()
    sections.add(b"GET /health HTTP/1.1\r\n\r\n", {})
    for data in (b"GET /health HTTP/1.1\r\n\r\n", b"", b"G", b"GET", b"GET /health HTTP/1.1\r\n"):
        assert sections.read(data) is None


def test_section_of_lines_that_end_otherwise_is_not_kept() -> None:
    sections = HeaderSections()
    data = b"GET /health HTTP/1.1\nClient-ID: one\r\nHost: h\r\n\r\n"
    sections.add(data, {b"client-id": b"one", b"host": b"h"})
    assert sections.read(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n") is None


def test_known_section_without_its_end_is_no_head() -> None:
    sections = HeaderSections()
    known = b"POST /health HTTP/1.1\r\nContent-Length: 39"
    sections.add(known + b"\r\n\r\n", {b"content-length": b"39"})
    # What follows the first bytes is as long as the body should be.
    assert len(known + b"x") == 39 + 3
    assert sections.read(known + b"x") is None
