# SPDX-License-Identifier: Apache-2.0
"""Header sections of requests that were parsed before: a client repeats its own."""

from __future__ import annotations

import re

_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"
#: What the parser takes for a query, but for bytes beyond ASCII.
_QUERY = re.compile(r"[!\"$-~]*")
#: Sections that are kept, and bytes of one: many clients, in some 10 MB at most.
_SECTIONS_MAX = 1024
_SECTION_SIZE_MAX = 4096


class HeaderSections:
    """Known header sections (RFC 9112, 2.1), by their bytes.

    To parse the same again would cost a tenth of a small request.
    """

    def __init__(self) -> None:
        self._parsed: dict[bytes, dict[bytes, bytes]] = {}

    def add(self, data: bytes, headers: dict[bytes, bytes]) -> None:
        """Keeps the *headers* that the parser has found in the head that *data* begins with."""
        section = data[data.find(_LINE_END) : data.find(_HEAD_END)]
        # Else these are not the lines that the parser has seen: some end otherwise.
        if section.count(b"\n") == len(headers) and len(section) <= _SECTION_SIZE_MAX:
            if len(self._parsed) == _SECTIONS_MAX:
                self._parsed.clear()
            self._parsed[section] = headers

    def read(self, data: bytes) -> tuple[bytes, str, str, dict[bytes, bytes], bytes] | None:
        """Returns method, path, query string, headers and body.

        None: *data* is not one whole request of HTTP/1.1 with a known header section.
        """
        line_end, end = data.find(_LINE_END), data.find(_HEAD_END)
        headers = self._parsed.get(data[line_end:end])
        if end < 0 or not headers:
            return None
        body = data[end + len(_HEAD_END) :]
        if len(body) != int(headers.get(b"content-length", 0)):
            return None
        method, _, rest = data[:line_end].partition(b" ")
        target, _, version = rest.partition(b" ")
        if version != b"HTTP/1.1" or not target.isascii():
            return None
        path, _, query = target.decode().partition("?")
        if query and not _QUERY.fullmatch(query):
            return None
        return method, path, query, headers, body
