# SPDX-License-Identifier: Apache-2.0
"""A small OpenID provider: it publishes keys, signs tokens, and lets everybody sign in."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.support.http_handlers import QuietHandler, local_server

AUDIENCE = "zaqar"
#: of the console
CLIENT_ID = "zaqar-console"
#: that a provider publishes among its public keys
SECRET = b"a secret of thirty-two bytes and more"
_CODE = "the-code"


class OpenIdProvider:
    """The provider; *claims* are those of whoever signs in at its page."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[Any, str]] = {}
        self._published: dict[str, dict[str, Any]] = {}
        #: by path
        self.requests: dict[str, int] = {}
        self.claims: dict[str, Any] = {}
        #: that tokens of the page are valid for
        self.seconds = 300
        self._signed_in: dict[str, list[str]] = {}
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        provider = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                provider.answer(self, urlsplit(self.path).query)

            def do_POST(self) -> None:
                provider.answer(self, self.body().decode())

        self._server = local_server(Handler, self._port)
        self._port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def add_key(self, name: str, algorithm: str = "ES256") -> None:
        """Publishes a new key."""
        if algorithm[:2] in ("RS", "PS"):
            key: Any = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            public = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        elif algorithm == "EdDSA":
            key = ed25519.Ed25519PrivateKey.generate()
            public = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
        else:
            key = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        self._keys[name] = key, algorithm
        self._published[name] = public | {"kid": name, "alg": algorithm, "use": "sig"}

    def publish_secret(self, name: str) -> None:
        """Publishes `SECRET` as a symmetric key."""
        text = base64.urlsafe_b64encode(SECRET).decode().rstrip("=")
        self._published[name] = {"kty": "oct", "k": text, "kid": name, "alg": "HS256"}

    def remove_key(self, name: str) -> None:
        del self._keys[name], self._published[name]

    def public_key(self, name: str) -> Any:
        return self._keys[name][0].public_key()

    def token(
        self, key: str = "first", headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """Returns a token of a member of `project`; a claim that is None is left out."""
        private, algorithm = self._keys[key]
        return jwt.encode(
            self.payload(**claims), private, algorithm, headers={"kid": key} | (headers or {})
        )

    def payload(self, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        known = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": now + 300,
            "iat": now,
            "project": "project",
            "roles": ["zaqar-member"],
        }
        return {name: each for name, each in (known | claims).items() if each is not None}

    def answer(self, request: QuietHandler, form: str) -> None:
        path = urlsplit(request.path).path
        self.requests[path] = self.requests.get(path, 0) + 1
        given = {name: values[0] for name, values in parse_qs(form).items()}
        body: dict[str, Any] = {}
        status, headers = 200, {"Access_Control_Allow_Origin": "*"}
        if path == "/.well-known/openid-configuration":
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            body = {"issuer": self.issuer} | {name: f"{self.issuer}/{name}" for name in names}
        elif path == "/jwks_uri":
            body = {"keys": list(self._published.values())}
        elif path == "/authorization_endpoint":
            assert (given["response_type"], given["client_id"]) == ("code", CLIENT_ID)
            assert given["code_challenge_method"] == "S256"
            self._signed_in[_CODE] = [given["code_challenge"], given["redirect_uri"]]
            query = urlencode({"code": _CODE, "state": given["state"]})
            status, headers = 302, {"Location": f"{given['redirect_uri']}?{query}"}
        elif path == "/token_endpoint" and self._is_known(given):
            body = self._issue()
        else:
            status = 400
        request.answer(status, json.dumps(body).encode(), **headers)

    def _is_known(self, given: dict[str, str]) -> bool:
        if given["client_id"] != CLIENT_ID:
            return False
        if given["grant_type"] == "refresh_token":
            return given["refresh_token"] == "the-refresh-token"
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return self._signed_in.pop(given["code"], None) == [challenge, given["redirect_uri"]]

    def _issue(self) -> dict[str, Any]:
        token = self.token(**self.claims, exp=int(time.time()) + self.seconds)
        return {
            "access_token": token,
            "refresh_token": "the-refresh-token",
            "token_type": "Bearer",
            "expires_in": self.seconds,
        }


def options(provider: OpenIdProvider, **more: object) -> dict[str, dict[str, object]]:
    """Returns options of a service that accepts the provider's tokens."""
    known: dict[str, object] = {"issuer": provider.issuer, "audience": AUDIENCE, "leeway": 0}
    return {"auth": {"strategy": "jwt"}, "auth:jwt": known | more}
