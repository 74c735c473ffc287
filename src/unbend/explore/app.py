"""The web application: fixed files, and questions and acts below ``/api/``."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import resources
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unbend.explore.session import Session
from unbend.progress import say

__all__ = ["make_app"]

_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("explore", "api", "map", "plain", "webgl", "gallery", "side", "dialogs")
    },
    "/explore.css": ("explore.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_MOST_ROWS = 512  # described or pictured by one request
_PATIENCE = 25.0  # seconds that a tab waits for changes of another one


class Application:
    """Answers the requests of the page for one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._changed = asyncio.Condition()
        self._closing = False

    def routes(self) -> list[Route]:
        """Every address that is answered."""
        s = self.session
        get: dict[str, Callable[[Request], Any]] = {
            "run": lambda r: s.about(),
            "state": lambda r: s.state(),
            "labels": lambda r: s.labels(),
            "points": lambda r: s.material.positions.astype("<u2"),
            "column": lambda r: self._column(r),
            "members": lambda r: s.members(
                self._whole(r, "group"), r.query_params.get("order", "typical")
            ),
            "nearest": lambda r: s.nearest(self._row(r)),
            "duplicates": lambda r: s.duplicates(self._whole(r, "group")),
            "tree": lambda r: s.tree(),
            "costs": lambda r: s.costs(self._whole(r, "group")),
            "queue": lambda r: s.queue(),
            "search": lambda r: s.search(r.query_params.get("text", "")),
            "suggest": lambda r: s.suggest(self._whole(r, "group")),
        }
        post: dict[str, Callable[[Any], Any]] = {
            "samples": lambda tree: s.describe(self._rows(tree)),
            "split": lambda tree: s.preview_split(_number(tree, "group"), _number(tree, "parts")),
            "tiles": self._tiles,
            "keep": lambda tree: s.keep(),
        }
        found = [Route(path, _file(*file)) for path, file in _FILES.items()]
        found += [Route(f"/api/{name}", _get(answer)) for name, answer in get.items()]
        found += [
            Route(f"/api/{name}", _post(answer), methods=["POST"]) for name, answer in post.items()
        ]
        found.append(Route("/api/changes", self._changes))
        found.append(Route("/api/act", self._act, methods=["POST"]))
        return found

    async def close(self) -> None:
        """Let waiting tabs go."""
        self._closing = True
        async with self._changed:
            self._changed.notify_all()

    async def _act(self, request: Request) -> Response:
        answer = await _post(self.session.act)(request)
        if answer.status_code == 200:
            async with self._changed:
                self._changed.notify_all()
        return answer

    async def _changes(self, request: Request) -> Response:
        """Answer when the revision is no longer the one that the tab knows."""
        try:
            since = int(request.query_params.get("since", ""))
        except ValueError:
            return _problem(400, "`since` must be a whole number")

        def ready() -> bool:
            return self._closing or self.session.revision != since

        async with self._changed:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(ready), _PATIENCE)
        return JSONResponse({"revision": self.session.revision, "closing": self._closing})

    def _tiles(self, tree: Any) -> Response:
        sheet = self.session.material.pictures.sheet(self._rows(tree), _number(tree, "side"))
        return Response(sheet, media_type="image/webp")

    def _rows(self, tree: Any) -> list[int]:
        rows = tree.get("rows") if isinstance(tree, dict) else None
        n = self.session.material.n
        if not isinstance(rows, list) or not 1 <= len(rows) <= _MOST_ROWS:
            raise ValueError(f"`rows` must be a list of 1 to {_MOST_ROWS} samples")
        if not all(type(row) is int and 0 <= row < n for row in rows):
            raise ValueError(f"`rows` must be whole numbers from 0 to {n - 1}")
        return rows

    def _column(self, request: Request) -> Any:
        columns = self.session.material.columns
        return columns[self._whole(request, "number", len_of=columns)].values

    def _row(self, request: Request) -> int:
        return self._whole(request, "row", len_of=self.session.material.facts.labels)

    def _whole(self, request: Request, name: str, *, len_of: Any = None) -> int:
        text = request.query_params.get(name, "")
        if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdecimal():
            raise ValueError(f"`{name}` must be a whole number, got {text[:40]!r}")
        value = int(text[:12])
        if len_of is not None and not 0 <= value < len(len_of):
            raise ValueError(f"`{name}` must be from 0 to {len(len_of) - 1}, got {value}")
        return value


def make_app(session: Session) -> tuple[Starlette, Application]:
    """The application without its guard, and the object that closes it."""
    application = Application(session)
    return Starlette(routes=application.routes(), exception_handlers={500: _failed}), application


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    body = (resources.files("unbend.explore") / "page" / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(body, media_type=kind)

    return answer


def _get(question: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await _answer(lambda: question(request))

    return answer


def _post(question: Callable[[Any], Any]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        body = await request.body()
        try:
            tree = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return _problem(400, "the request is not JSON")
        return await _answer(lambda: question(tree))

    return answer


async def _answer(question: Callable[[], Any]) -> Response:
    """Ask in a thread, so that one slow question does not hold up the others."""
    try:
        found = await run_in_threadpool(question)
    except PermissionError as error:
        return _problem(403, str(error))
    except ValueError as error:
        return _problem(400, str(error))
    except OSError as error:  # a full disk; the message says so
        return _problem(507, str(error))
    if isinstance(found, Response):
        return found
    if isinstance(found, np.ndarray):
        body = np.ascontiguousarray(found).tobytes()
        return Response(body, media_type="application/octet-stream")
    return JSONResponse(found)


def _number(tree: Any, name: str) -> int:
    value = tree.get(name) if isinstance(tree, dict) else None
    if type(value) is not int:
        raise ValueError(f"`{name}` must be a whole number")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _problem(status: int, text: str) -> Response:
    return JSONResponse({"problem": text[:500]}, status_code=status)


async def _failed(request: Request, error: Exception) -> Response:
    """Hide internal details from the client; the terminal shows them all."""
    say("".join(traceback.format_exception(error)))
    return _problem(500, "the server made a mistake; its terminal says which")
