# SPDX-License-Identifier: Apache-2.0
"""The settings of targets, which the operator chooses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class HttpSettings(Struct, frozen=True):
    allowed_networks: Annotated[
        tuple[str, ...],
        "Networks, like 10.2.0.0/16, whose addresses webhooks may reach although they are not "
        "public. By default webhooks reach public addresses only: not this machine, private "
        "networks, or what a cloud tells its instances.",
    ] = ()
    max_connections: Annotated[
        int, Meta(ge=1), "Connections that a process has to all endpoints of webhooks, at most."
    ] = 512
    max_connections_per_host: Annotated[
        int,
        Meta(ge=0),
        "Connections that a process has to one host and port, at most; 0: any number. With a limit "
        "the subscribers there wait for one another, and to wait counts as time of the endpoint.",
    ] = 0
    max_timeout: Annotated[
        float,
        Meta(ge=0.1),
        "Seconds that one request to an endpoint may take, with its redirects, whatever the "
        "subscription says.",
    ] = 60.0
    max_redirects: Annotated[
        int,
        Meta(ge=0, le=20),
        "Redirects that a webhook follows. It never goes from https to http.",
    ] = 3
    ca_file: Annotated[
        str | None,
        "File with certificates of authorities that endpoints may have, beside those that the "
        "system trusts.",
    ] = None
