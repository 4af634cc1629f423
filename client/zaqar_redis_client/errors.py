# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: the service has refused a request, or it cannot be reached."""

from __future__ import annotations


class ZaqarError(Exception):
    """Any error of this package."""


class Refused(ZaqarError):
    """The service has answered with an error.  Nothing has changed there."""

    def __init__(self, status: int, title: str, description: str, request: str) -> None:
        super().__init__(f"{request}: {status} {title}: {description}")
        #: of HTTP
        self.status = status
        self.title = title
        #: names the field and the limit
        self.description = description


class NotFound(Refused):
    """There is no such thing (404)."""


class LeaseLost(Refused):
    """The claim has ended, or does not hold the message any more: another consumer may have it."""


class Unavailable(ZaqarError):
    """The service could not be reached, or had too much to do, for as long as the client tries.

    *may_be_done*: the last request was sent, and may have been done all the same.
    """

    def __init__(self, text: str, *, may_be_done: bool) -> None:
        super().__init__(text)
        self.may_be_done = may_be_done


class JobFailed(ZaqarError):
    """The job was tried as often as its queue allows, and is a dead letter: the last reason."""


class Unsupported(ZaqarError):
    """This service, stock Zaqar perhaps, does not have what was asked for."""
