"""`transduce serve`: the page and an API for its numbers, for the people of this machine.

    POST /v1/inspect {text, beam?, edits?}       {id, parent?, meta, tensors: [{name, shape, bytes}]}; same request, same id
    GET  /v1/inspect/ID                          the same again
    GET  /v1/inspect/ID/tensors?names=a,b.*      a safetensors file
    GET  /v1/inspect/ID.html                     the page in one file
    GET  /v1/inspect/ID/diff/ID                  the largest difference of each tensor; null where shapes differ
    GET  /v1/inspect/probe                       the film of the training
Errors are JSON: {"error": "..."}.
"""

import errno
import html
import ipaddress
import json
import math
import re
import signal
import socket
import threading
import webbrowser
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from transduce.decode.generator import Generator
from transduce.decode.load import load
from transduce.decode.translator import Translator
from transduce.errors import (
    BusyError,
    DataError,
    MissingInputError,
    OutputError,
    TransduceError,
    UsageError,
)
from transduce.inspection.branches import make_branches
from transduce.inspection.edits import parse_edits
from transduce.inspection.trace import Trace, trace, trace_id
from transduce.training.run_folder import find_film

MAX_BODY = 1 << 20
MAX_TRACES, MAX_REQUESTS = 8, 512  # kept in memory; a trace that is not is made again
FIELDS = {"text", "beam", "edits"}
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Traces:
    """Traces by name: those made last, and what was asked for the others."""

    def __init__(self, worker: Translator | Generator) -> None:
        self._worker, self._lock = worker, threading.Lock()  # one at a time: each takes all cores
        self._made: OrderedDict[str, Trace] = OrderedDict()
        self._asked: OrderedDict[str, Mapping[str, Any]] = OrderedDict()

    def name(self, asked: Mapping[str, Any]) -> str:
        """The name of what is asked: it follows from that and from the model."""
        return trace_id({**asked, "model": {"fingerprint": self._worker.folder.fingerprint}})

    def make(self, asked: Mapping[str, Any]) -> Trace:
        """What is asked, which is remembered if it can be had."""
        name = self.name(asked)
        with self._lock:
            made = self._made.pop(name, None) or trace(self._worker, **asked)
            self._made[name] = made
            self._asked.pop(name, None)
            self._asked[name] = asked
            for kept, most in ((self._made, MAX_TRACES), (self._asked, MAX_REQUESTS)):
                if len(kept) > most:
                    kept.popitem(last=False)
            return made

    def get(self, name: str) -> Trace:
        """A trace by its name."""
        asked = self._asked.get(name)
        if asked is None:
            raise MissingInputError(f"no trace {name}: ask for it by POST /v1/inspect")
        return self.make(asked)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What POST /v1/inspect says; the parent is the same without edits."""
        parent = {**asked, "edits": []}
        above = {}
        if asked["edits"]:
            self.make(parent)
            above["parent"] = self.name(parent)
        made = self.make(asked)
        tensors = [
            {"name": n, "shape": list(x.shape), "bytes": 2 * x.numel()}
            for n, x in made.tensors.items()
        ]
        return {"id": self.name(asked), **above, "meta": made.meta, "tensors": tensors}


def parse_request(body: bytes) -> dict[str, Any]:
    """What is asked, if it can be."""
    try:
        asked = json.loads(body)
        json.dumps(asked, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the request holds half of a surrogate pair, which is no character"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}") from None
    if not isinstance(asked, dict) or type(asked.get("text")) is not str or set(asked) - FIELDS:
        raise UsageError(
            'wanted {"text": "...", "beam": 4, "edits": [...]}; beam and edits may be left out'
        )
    beam, edits = asked.get("beam"), asked.get("edits", [])
    if not (beam is None or type(beam) is int) or not isinstance(edits, list):
        raise UsageError("beam must be a whole number and edits a list")
    return {"text": asked["text"], "beam": beam, "edits": parse_edits(edits)}


def some(made: Trace, names: str) -> Trace:
    """A trace with those tensors only whose names fit."""
    patterns = [name for name in names.split(",") if name]
    chosen = {
        n: t
        for n, t in made.tensors.items()
        if not patterns or any(fnmatchcase(n, p) for p in patterns)
    }
    if not chosen:
        raise MissingInputError(f"no tensor {names}; there are {', '.join(made.tensors)}")
    return Trace(made.meta, chosen)


def make_app(
    worker: Translator | Generator, film: bytes | None = None, hosts: frozenset[str] | None = None
) -> Any:
    """The application; `hosts` are the names it answers to, None: any."""
    from fastapi import FastAPI, Request, Response
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import HTMLResponse, JSONResponse
    from starlette.exceptions import HTTPException

    from transduce.inspection.page_export import export_html, page_html

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    traces = Traces(worker)

    def failed(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    def page(content: str) -> HTMLResponse:
        found = POLICY.search(content)
        assert found, "a page has its policy"
        return HTMLResponse(
            content,
            headers={
                "Content-Security-Policy": html.unescape(found[1]) + "; frame-ancestors 'none'"
            },
        )

    @app.middleware("http")
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        """Other sites get nothing: not by another name for this machine, nor from their own pages."""
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if hosts is not None and re.sub(r":\d+$", "", host).lower() not in hosts:
            response: Response = failed(400, f"this server does not answer to the name {host!r}")
        elif origin is not None and origin.partition("://")[2] != host:
            response = failed(403, f"this server does not answer to pages of {origin!r}")
        else:
            response = await go_on(request)
        response.headers.setdefault(
            "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"
        )
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(TransduceError)
    def on_error(request: Request, error: TransduceError) -> Response:
        status = (
            404
            if isinstance(error, MissingInputError)
            else 413
            if isinstance(error, DataError)
            else 400
        )
        return failed(status, str(error))

    @app.exception_handler(HTTPException)
    def on_http_error(request: Request, error: HTTPException) -> Response:
        return failed(error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    @app.get("/")
    def home() -> Response:
        return page(page_html("server", film=film))

    @app.post("/v1/inspect")
    async def inspect(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return failed(
                    413, f"a request of more than {MAX_BODY >> 20} MB: give a shorter text"
                )
        return JSONResponse(await run_in_threadpool(traces.answer, parse_request(body)))

    @app.get("/v1/inspect/probe")
    def probe() -> Response:
        if film is None:
            raise MissingInputError("this model has no film: give the run folder it was trained in")
        return Response(film, media_type="application/octet-stream")

    @app.get("/v1/inspect/{name}.html")
    def one_file(name: str) -> Response:
        made = traces.get(name)
        return page(export_html(made, branches=make_branches(made), film=film))

    @app.get("/v1/inspect/{name}")
    def again(name: str) -> Response:
        return JSONResponse(
            traces.answer({field: traces.get(name).meta[field] for field in FIELDS})
        )

    @app.get("/v1/inspect/{name}/tensors")
    def tensors(name: str, names: str = "") -> Response:
        return Response(
            some(traces.get(name), names).to_bytes(), media_type="application/octet-stream"
        )

    @app.get("/v1/inspect/{name}/diff/{other}")
    def diff(name: str, other: str) -> Response:
        found = traces.get(name).diff(traces.get(other))
        return JSONResponse({n: x if math.isfinite(x) else None for n, x in found.items()})

    return app


def serve(
    model: Path | None, host: str, port: int, open_page: bool, say: Callable[[str], None]
) -> None:
    """Serve until somebody ends it."""
    try:
        import uvicorn
        from fastapi import FastAPI  # noqa: F401  is it there?
    except ImportError:
        raise UsageError(
            "serve needs FastAPI and uvicorn: pip install 'transduce[serve]'"
        ) from None

    listening = listen(host, port)
    worker = load(model, engine="torch")
    names = (
        frozenset({"localhost", "127.0.0.1", "[::1]", host.lower()}) if is_loopback(host) else None
    )
    if names is None:
        say(f"warning: whoever can reach {host} can use this model")
    app = make_app(worker, find_film(model), names)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
    )
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # uvicorn ends by them, and raises them once more when it has ended
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    say(f"look inside at {address} (Ctrl-C ends it)")
    if open_page:
        webbrowser.open(address)
    server.run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket of our own, so that a port which is taken is an error that says so."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                f"port {port} of {host} is in use: end what uses it, or give another --port (0: a free one)"
            ) from None
        raise OutputError(f"cannot listen at {host} port {port}: {error.strerror}") from None
