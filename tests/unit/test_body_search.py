# SPDX-License-Identifier: Apache-2.0
"""A text is found in bodies however their JSON was written."""

from __future__ import annotations

import pytest

from zaqar_redis.service.administration import has_text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r'"\u4e2d\u6587"', "中文"),
        (r'{"\u4E2D\u6587": 1}', "中文"),
        (r'"\ud83d\ude00!"', "😀!"),
        (r'"a\/b"', "a/b"),
        (r'"say \"hi\""', 'say "hi"'),
        (r'"C:\\temp"', r"C:\temp"),
        (r'"one\ntwo"', "one\ntwo"),
        ('{"customer" : 7}', '"customer":7'),
        (r'{"name": "\u4e2d"}', '{"name":"中"}'),
        # As it was posted, too.
        (r'"\u4e2d"', r"\u4e2d"),
        ('{"customer": 7}', '"customer": 7'),
        # Half of a surrogate pair, and a number that no float holds.
        (r'["\ud800", "\u4e2d"]', "中"),
        ('{"a": 1e999, "b": "tea"}', "tea"),
    ],
)
def test_text_is_found_decoded_as_posted_and_without_white_space(body: str, text: str) -> None:
    assert has_text(body.encode(), text)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('"tea"', "coffee"),
        (r'"\\u4e2d"', "中"),  # a backslash, and no escape
        (r'["\ud800"]', "tea"),
        ("[" * 5000 + "]" * 5000, "tea"),
    ],
)
def test_text_that_is_not_in_a_body_is_not_found(body: str, text: str) -> None:
    assert not has_text(body.encode(), text)
