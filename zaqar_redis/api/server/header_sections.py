# SPDX-License-Identifier: Apache-2.0
"""Header sections of requests that were parsed before: a client repeats its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"
#: Queries with other bytes, ``#`` among them, are left to the parser.
_QUERY = re.compile(r"[!\"$-~]*")
#: Sections that are kept, bytes and headers of one: those of many clients, in some 10 MB at most.
_SECTIONS_MAX = 1024
_SECTION_SIZE_MAX = 4096
_HEADERS_MAX = 32


class HeaderSections:
    """Known header sections (RFC 9112, 2.1), by their bytes.

    To parse the same again would cost a tenth of a small request.
    """

    def __init__(self) -> None:
        self._parsed: dict[bytes, dict[bytes, bytes]] = {}

    def add(self, line: bytes, headers: Sequence[tuple[bytes, bytes]], data: bytes) -> None:
        """Keeps the headers of a request, which the parser has found in *data*.

        *line*: the request line.  *headers*: all of them, names in lower case.
        """
        if not data.startswith(line + _LINE_END) or len(headers) > _HEADERS_MAX:
            return
        section = data[len(line) : data.find(_HEAD_END)]
        if section in self._parsed:
            return  # of a request that was not read at once
        # One line for each header, all of them ended alike: they say the same to every parser.
        if section.count(b"\n") == len(headers) and len(section) <= _SECTION_SIZE_MAX:
            if len(self._parsed) == _SECTIONS_MAX:
                self._parsed.clear()
            self._parsed[section] = dict(headers)

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
