# SPDX-License-Identifier: Apache-2.0
"""Pre-signed URLs give access to what was signed, until they expire, and nothing else."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zaqar_redis import errors
from zaqar_redis.auth.signed_urls import SignedUrl, UrlSigner

NOW = datetime(2030, 1, 31, 12, 0, 0)
MESSAGES = "/v2/queues/q/messages"


def _signer(key: str | None = "secret", now: datetime = NOW) -> UrlSigner:
    return UrlSigner(key, lambda: now)


def _shared(**wanted: Any) -> SignedUrl:
    given = {"project": "p", "queue": "q", "paths": None, "methods": None, "expires": None}
    return _signer().share(**(given | wanted))


def _opens(shown: SignedUrl, method: str = "GET", path: str = MESSAGES, **signer: Any) -> bool:
    try:
        _signer(**signer).check(shown, method, path)
    except errors.BadSignature:
        return False
    return True


def test_default_share_allows_reading_messages_for_a_day() -> None:
    signed = _shared()
    assert (signed.paths, signed.methods) == ([MESSAGES], ["GET"])
    assert signed.expires == "2030-02-01T12:00:00"
    assert _opens(signed)


def test_signature_equals_that_of_stock_zaqar() -> None:
    signed = _shared(methods=["POST", "GET"], paths=["messages", "claims"])
    text = r"/v2/queues/q/claims,/v2/queues/q/messages\nGET,POST\np\n2030-02-01T12:00:00"
    assert signed.signature == hmac.new(b"secret", text.encode(), hashlib.sha256).hexdigest()


def test_signature_for_longer_than_time_has_lasts_to_its_end() -> None:
    seconds = int((datetime.max - NOW).total_seconds())
    for wanted in (seconds, seconds + 1):
        signed = _signer().sign("p", MESSAGES, "GET", wanted)
        assert signed.expires == "9999-12-31T23:59:59"
        assert _opens(signed)


@pytest.mark.parametrize(
    "path",
    [
        *(MESSAGES + "x", "/v2/queues/q", "/v2/queues/q/claims", "/v2/queues/other/messages"),
        *("/v2/queues/q/messagesx/1", "/v2/queues", "/"),
    ],
)
def test_unsigned_path_is_rejected(path: str) -> None:
    assert not _opens(_shared(), path=path)


def test_path_below_signed_path_is_accepted() -> None:
    assert _opens(_shared(), path=MESSAGES + "/1234")


def test_unsigned_method_is_rejected() -> None:
    signed = _shared(methods=["GET", "POST"])
    opened = {m for m in ("GET", "POST", "PUT", "DELETE", "HEAD", "get") if _opens(signed, m)}
    assert opened == {"GET", "POST"}


def test_signature_expires_on_time() -> None:
    signed = _shared(expires="2030-01-31T12:00:10")
    assert _opens(signed, now=NOW + timedelta(seconds=9, microseconds=999_999))
    assert not _opens(signed, now=NOW + timedelta(seconds=10))


def test_signature_by_another_or_no_key_is_rejected() -> None:
    assert not _opens(_shared(), key="other")
    assert not _opens(_shared(), key=None)
    assert not _opens(_shared(), key="")
    with pytest.raises(errors.BadRequest, match="secret_key"):
        _signer(None).share("p", "q", None, None, None)


@given(
    field=st.sampled_from(["paths", "methods", "project", "expires", "signature"]),
    text=st.text(max_size=30),
)
def test_signature_with_any_changed_field_is_rejected(field: str, text: str) -> None:
    signed = _shared()
    changed: Any = [MESSAGES, text] if field == "paths" else text
    changed = ["GET", text] if field == "methods" else changed
    assume(changed != getattr(signed, field))
    assert not _opens(msgspec.structs.replace(signed, **{field: changed}))


def test_signature_with_shifted_field_border_is_rejected() -> None:
    signed = _shared(project="p")
    methods, project, expires = ["GET"], r"p\n2030-02-01T12:00:00", ""
    moved = msgspec.structs.replace(signed, methods=methods, project=project, expires=expires)
    assert not _opens(moved)
    joined = msgspec.structs.replace(signed, methods=[r"GET\np"], project="")
    assert not _opens(joined)
    with pytest.raises(errors.BadRequest, match="backslash"):
        _shared(project=r"a\nb")


def test_order_of_shown_paths_and_methods_does_not_matter() -> None:
    signed = _shared(methods=["GET", "PUT"], paths=["claims", "messages"])
    turned = msgspec.structs.replace(signed, methods=signed.methods[::-1], paths=signed.paths[::-1])
    assert _opens(turned, "PUT")


@pytest.mark.parametrize(
    "expires",
    [
        *("2030-01-31T12:00:01", "2030-01-31T12:00:01.5", "2030-01-31T12:00:01Z"),
        *("2030-01-31T14:00:01+02:00", "20300131T120001"),
    ],
)
def test_expiry_is_parsed_in_many_formats(expires: str) -> None:
    assert _shared(expires=expires).expires == "2030-01-31T12:00:01"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"expires": "2030-01-31T12:00:00"}, {"expires": "2029-01-31T12:00:00"}),
        *({"expires": "tomorrow"}, {"expires": ""}, {"expires": "0001-01-01T00:00:00+23:59"}),
        *({"paths": []}, {"paths": ["stats"]}, {"paths": ["messages", "../other/messages"]}),
        *({"methods": []}, {"methods": ["get"]}, {"methods": ["OPTIONS"]}),
    ],
)
def test_invalid_share_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.BadRequest):
        _shared(**wrong)


@given(signature=st.text(max_size=70), expires=st.text(max_size=30))
def test_random_signatures_are_rejected(signature: str, expires: str) -> None:
    assert not _opens(SignedUrl([MESSAGES], ["GET"], "p", expires, signature))
