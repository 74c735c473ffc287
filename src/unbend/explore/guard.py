"""The guard of the server: who may ask, from where, and how much.

Only this machine can connect, and of its programs only those that know the token. Web pages of
others can make a browser send requests here; the Host and Origin headers give them away.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

__all__ = ["HEADERS", "Guard"]

LARGEST_BODY = 24 * 2**20  # a lasso around a million samples
LONGEST_QUERY = 2_000

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """Passes on only requests of this page; all other requests get a short refusal.

    Parameters
    ----------
    app : ASGI application
    token : str
        Every request below ``/api/`` must carry it as a bearer token.
    port : int
        The port of the server, part of the only Host headers that are accepted.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self.app, self._token = app, token.encode()
        self.hosts = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only http is served")
        body = _Body(receive)
        answered = False

        async def guarded_send(message: Message) -> None:
            nonlocal answered
            if body.refusal is not None:  # the application knows only that reading failed
                if not answered:
                    answered = True
                    await _refuse(send, body.refusal)
                return
            if message["type"] == "http.response.start":
                answered = True
                message["headers"] = [*message.get("headers", []), *_headers()]
            await send(message)

        try:
            self._check(scope)
        except Refused as refusal:
            await _refuse(send, refusal)
            return
        with suppress(Refused):  # answered above
            await self.app(scope, body.read, guarded_send)

    def _check(self, scope: Scope) -> None:
        headers: dict[str, list[str]] = {}
        for key, value in scope["headers"]:
            headers.setdefault(key.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if any(len(headers.get(k, [])) > 1 for k in ("host", "origin", "authorization")):
            raise Refused(400, "a header is there twice")
        host = headers.get("host", [""])[0].lower()
        if host not in self.hosts:
            raise Refused(421, "this server has another name")
        origin = headers.get("origin", [None])[0]
        if origin is not None and origin.lower() != f"http://{host}":
            raise Refused(403, "the request comes from another site")
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            raise Refused(403, "the request comes from another site")
        if scope["method"] not in ("GET", "POST"):
            raise Refused(405, "only GET and POST are known here")
        if len(scope.get("query_string", b"")) > LONGEST_QUERY:
            raise Refused(414, "the query is too long")
        if scope["path"].startswith("/api/"):
            self._check_token(headers.get("authorization", [""])[0])
        if scope["method"] == "POST":
            _check_body(headers)

    def _check_token(self, given: str) -> None:
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(
            token.encode("latin-1", "replace"), self._token
        ):
            raise Refused(401, "the token is missing or wrong; open the address that was printed")


def _check_body(headers: dict[str, list[str]]) -> None:
    kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "the content type must be application/json")
    length = headers.get("content-length", ["0"])[0]
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise Refused(413, "the request is too large")


class _Body:
    """Counts the bytes of a request, whose length need not have been said."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._total = receive, 0
        self.refusal: Refused | None = None

    async def read(self) -> Message:
        """The next part of the request."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._total += len(message.get("body", b""))
            if self._total > LARGEST_BODY:
                self.refusal = Refused(413, "the request is too large")
                raise self.refusal
        return message


def _headers() -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def _refuse(send: Send, refusal: Refused) -> None:
    body = refusal.reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    headers += [(b"content-length", str(len(body)).encode()), *_headers()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
