# SPDX-License-Identifier: Apache-2.0
"""From whom and to whom a mail is, by the URI and the options of a subscription.

Nothing that a subscription has can add a header field or a recipient: addresses have a strict form,
and texts no control characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.headerregistry import Address
from typing import Any
from urllib.parse import unquote

from zaqar_redis import errors
from zaqar_redis.records import Record

#: A subscription is for a person or a few; lists of more are for a mailing list.
RECIPIENTS_MAX = 10
#: Characters; mail programs show fewer.
SUBJECT_MAX = 255
#: RFC 5321, 4.5.3.1: a path has 256, two of which are brackets.
_ADDRESS_MAX = 254
_LOCAL_MAX = 64
_SENDER_MAX = 400

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: RFC 5322, 3.4.1: an addr-spec; without quoted names, and without the literal address of a host.
_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")
_NAMED = re.compile(r'(?:"(?P<quoted>[^"<>\\]*)"|(?P<plain>[^"<>@,;:\\]*)) *<(?P<address>[^<>]*)>')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: RFC 6068, 4: of the header fields of a URI these are safe here.
_LISTS = ("to", "cc", "bcc")


class MailAddressing(Record, frozen=True):
    sender: Address
    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    subject: str = ""

    @property
    def recipients(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.to, *self.cc, *self.bcc)))


def parse(subscriber: str, options: Mapping[str, Any], sender: Address) -> MailAddressing:
    """Reads a ``mailto:`` URI (RFC 6068) and the options ``from`` and ``subject``.

    *sender*: without the option.  A subject in the URI counts, as in stock Zaqar.
    Raises BadRequest that names the field.
    """
    path, _, query = subscriber.partition(":")[2].partition("#")[0].partition("?")
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    lists["to"] += _addresses(path)
    subject = text("options.subject", options.get("subject", ""), SUBJECT_MAX)
    for name, value in _fields(query):
        if name == "subject":
            subject = text("subscriber?subject", _decoded(value), SUBJECT_MAX)
        else:
            lists[name] += _addresses(value)
    found = MailAddressing(
        sender=named_address("options.from", options["from"]) if "from" in options else sender,
        **{name: tuple(each) for name, each in lists.items()},
        subject=subject,
    )
    if not 1 <= len(found.recipients) <= RECIPIENTS_MAX or not found.to:
        raise errors.BadRequest(
            why=f'The URI in "subscriber" has {len(found.recipients)} addresses; it must have 1 to '
            f"{RECIPIENTS_MAX}, and one of them outside cc and bcc."
        )
    return found


def named_address(name: str, value: object) -> Address:
    """Reads ``address`` or ``NAME <address>``.  Raises BadRequest that names the field *name*."""
    given = text(name, value, _SENDER_MAX).strip()
    match = _NAMED.fullmatch(given)
    if match is None:
        return Address(addr_spec=_checked(name, given))
    shown = (match["quoted"] or match["plain"] or "").strip()
    return Address(display_name=shown, addr_spec=_checked(name, match["address"]))


def text(name: str, value: object, limit: int) -> str:
    """Returns a text for a header field.  Raises BadRequest that names the field *name*."""
    if not isinstance(value, str) or len(value) > limit or _CONTROL.search(value):
        raise errors.BadRequest(
            why=f'The value of "{name}" must be a text of at most {limit} characters, without line '
            "breaks and other control characters."
        )
    return value


def _fields(query: str) -> Iterator[tuple[str, str]]:
    """Yields the header fields of a URI by name; values are not decoded."""
    for each in filter(None, query.split("&")):
        name, _, value = each.partition("=")
        name = _decoded(name).lower()
        if name not in (*_LISTS, "subject"):
            raise errors.BadRequest(
                why=f'The URI in "subscriber" has the header field {name[:50]!r}; only to, cc, bcc '
                "and subject are supported."
            )
        yield name, value


def _addresses(value: str) -> Iterator[str]:
    # A comma that is part of an address is encoded, so it is no separator.
    return (_checked("subscriber", _decoded(each)) for each in value.split(",") if each)


def _decoded(value: str) -> str:
    """RFC 6068, 2: by percent-encoding of UTF-8 alone; a ``+`` is no blank."""
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise errors.BadRequest(
            why='The URI in "subscriber" has percent-encoded bytes that are not UTF-8.'
        ) from None


def _checked(name: str, address: str) -> str:
    is_short = len(address) <= _ADDRESS_MAX and len(address.rpartition("@")[0]) <= _LOCAL_MAX
    if not (is_short and _ADDRESS.fullmatch(address)):
        raise errors.BadRequest(
            why=f'"{name}" has no valid mail address: {address[:100]!r}. It must be like '
            f"name@example.org, in ASCII (a domain in its form xn--...), with at most {_LOCAL_MAX} "
            f"characters before the @ and {_ADDRESS_MAX} in all."
        )
    return address
