# SPDX-License-Identifier: Apache-2.0
"""Functions that workers of tests run in processes."""

from __future__ import annotations


def append(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)
