"""Serve the page of a run on this machine, until the user stops it."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from unbend.disk import Locked
from unbend.explore.material import open_material
from unbend.explore.session import Session
from unbend.progress import Progress, Tick, say, silent
from unbend.runs import run_lock

__all__ = ["DEFAULT_PORT", "Served", "explore", "serving"]

DEFAULT_PORT = 8421
_HOST = "127.0.0.1"


class Served:
    """A server that runs: its address with the token, and its session."""

    def __init__(self, address: str, session: Session, server: Any) -> None:
        self.address, self.session, self._server = address, session, server

    def run(self) -> None:
        """Serve until Ctrl-C or :meth:`stop`."""
        self._server.run()

    def stop(self) -> None:
        """End :meth:`run` from another thread."""
        self._server.should_exit = True


def explore(
    run: str | Path,
    *,
    port: int | None = None,
    read_only: bool = False,
    open_browser: bool = True,
    images: str | Path | None = None,
    columns: str | Path | None = None,
    text: str | None = None,
    progress: Progress = silent,
    started: Callable[[Served], None] | None = None,
) -> int:
    """Serve the page of a run and return the number of corrections when it is stopped.

    Parameters
    ----------
    run : path
        A finished run.
    port : int, optional
        Port on this machine; by default 8421 or, if it is taken, any free one.
    read_only : bool
        Show everything, change nothing; several such servers may run at once.
    open_browser : bool
        Open the page in the user's browser.
    images, columns, text
        As in :func:`~unbend.explore.material.open_material`.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.
    started : callable, optional
        Called with :class:`Served` before the first request; by default the address is printed.
    """
    with serving(
        run, port=port, read_only=read_only, images=images, columns=columns, text=text,
        progress=progress,
    ) as served:  # fmt: skip
        (started or _announce)(served)
        if open_browser:
            threading.Timer(0.3, webbrowser.open, [served.address]).start()
        served.run()
        return served.session.revision


@contextmanager
def serving(
    run: str | Path,
    *,
    port: int | None = None,
    read_only: bool = False,
    images: str | Path | None = None,
    columns: str | Path | None = None,
    text: str | None = None,
    progress: Progress = silent,
) -> Iterator[Served]:
    """A server for a run that is ready to be run; the run is locked unless ``read_only``."""
    uvicorn = _uvicorn()
    run = Path(run)
    with ExitStack() as held:
        material = open_material(run, images=images, columns=columns, text=text)
        if not read_only:
            held.enter_context(_own(run))
        progress(Tick("map", 0, 1))
        material.positions  # noqa: B018 computed here, while progress is shown
        progress(Tick("map", 1, 1))
        session = Session(material, read_only=read_only)
        held.callback(session.close)
        listener = held.enter_context(_listen(port))
        yield _served(uvicorn, session, listener)


def _served(uvicorn: Any, session: Session, listener: socket.socket) -> Served:
    from unbend.explore.app import make_app
    from unbend.explore.guard import Guard

    token, port = secrets.token_urlsafe(24), listener.getsockname()[1]
    app, application = make_app(session)
    config = uvicorn.Config(
        Guard(app, token, port), log_level="critical", access_log=False, server_header=False,
        http="h11", ws="none", lifespan="off", limit_concurrency=200, timeout_keep_alive=30,
        timeout_graceful_shutdown=2, proxy_headers=False,
    )  # fmt: skip

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: Any = None) -> None:
            await application.close()
            await super().shutdown(sockets)

        def run(self, sockets: Any = None) -> None:
            with suppress(KeyboardInterrupt):  # how one stops it
                super().run([listener])

    # After the # a browser keeps it to itself: it is in no request, no log and no Referer.
    return Served(f"http://{_HOST}:{port}/#token={token}", session, Server(config))


def _own(run: Path) -> ExitStack:
    try:
        return run_lock(run)
    except Locked as error:
        raise Locked(
            f"another process is writing to {str(run)!r}, perhaps a second unbend explore; close "
            "it, or look only with --read-only"
        ) from error
    except PermissionError as error:
        raise PermissionError(
            f"cannot write to {str(run)!r}; look only with --read-only"
        ) from error


def _listen(port: int | None) -> socket.socket:
    """A socket on this machine only."""
    if port is not None and not 0 <= port <= 65_535:
        raise ValueError(f"`port` must be from 0 to 65535, got {port}")
    for number in (DEFAULT_PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows: nobody may take it over
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_HOST, number))
            listener.listen(128)  # a browser that is quicker than the server waits
            return listener
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
    raise OSError(f"cannot use port {port} ({reason}); name another with --port, or leave it out")


def _announce(served: Served) -> None:
    say(f"explore: {served.address}")
    say("press Ctrl-C to stop; every correction is already saved")


def _uvicorn() -> Any:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ImportError(
            "explore needs Starlette and uvicorn; pip install 'unbend[explore]'"
        ) from error
    return uvicorn
