# SPDX-License-Identifier: Apache-2.0
"""What spans and metrics share that are sent to an OpenTelemetry collector."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zaqar_redis import errors

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

#: Seconds that a process which stops takes to send what is left.
LAST_SECONDS = 3.0


class HeaderFilter(logging.Filter):
    """Logs once that OpenTelemetry cannot read a header, which may be a credential."""

    def __init__(self) -> None:
        super().__init__()
        self._was_logged = False

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = (
            "a header in OTEL_EXPORTER_OTLP_HEADERS, or its variants for traces and metrics, is "
            "not sent: write it as name=value, with the value URL-encoded"
        )
        record.args = ()
        is_first, self._was_logged = not self._was_logged, True
        return is_first


#: Exporters read the variables whenever they are created: for metrics, each time they are sent.
HEADER_LOG = logging.getLogger("opentelemetry.util.re")
HEADER_LOG.addFilter(HeaderFilter())


@contextlib.contextmanager
def needed_by(option: str) -> Iterator[None]:
    """Raises BadConfiguration when OpenTelemetry, which is imported inside, is missing."""
    try:
        yield
    except ImportError:
        raise errors.BadConfiguration(
            f"{option}: it needs OpenTelemetry, of the extra opentelemetry: "
            "pip install '.[opentelemetry]'"
        ) from None


def service_resource() -> Resource:
    """Returns what spans and metrics of this process say of their sender.

    The environment decides: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
    """
    from opentelemetry.sdk.resources import Resource

    # Not every release of the SDK tells instances apart: their counters would be one another's.
    resource = Resource({"service.instance.id": str(uuid.uuid4())}).merge(Resource.create())
    if str(resource.attributes["service.name"]).startswith("unknown_service"):  # not set
        resource = resource.merge(Resource({"service.name": "zaqar_redis"}))
    return resource
