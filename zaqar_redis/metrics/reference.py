# SPDX-License-Identifier: Apache-2.0
"""The reference of all metrics in doc/metrics.md, made from their definitions."""

from __future__ import annotations

from collections.abc import Iterator

from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.merged import all_labels, served_name

_BEGIN = "<!-- begin of the reference: tools/metrics-reference writes it -->\n"
_END = "<!-- end of the reference -->\n"


def with_reference(document: str) -> str:
    """Returns the document with the reference as it is now."""
    before, _, rest = document.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{''.join(_table())}\n{_END}{after}"


def _table() -> Iterator[str]:
    yield "| metric | type | labels | what it says |\n|---|---|---|---|\n"
    for metric in definitions.METRICS.values():
        labels = ", ".join(f"`{label}`" for label in all_labels(metric))
        yield f"| `{served_name(metric)}` | {metric.kind} | {labels} | {metric.help} |\n"
