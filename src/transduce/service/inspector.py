"""The inspector's HTTP server: the page, and an API for its numbers.

    GET  /                                    the page
    POST /v1/inspect {text, beam?, edits?}    {id, parent?, meta, tensors: [{name, shape, bytes}]};
                                              the same request has the same id
    GET  /v1/inspect/ID                       the same answer again
    GET  /v1/inspect/ID/tensors?names=a,b.*   a safetensors file
    GET  /v1/inspect/ID.html                  the page in one file
    GET  /v1/inspect/ID/diff/ID               largest difference of each tensor; null: other shape
    GET  /v1/inspect/probe                    the film of the training

Errors are JSON: {"error": "..."}. A server on a loopback address accepts only requests to the host
names of this machine. It rejects requests from pages of other origins.
"""

import errno
import html
import ipaddress
import math
import re
import signal
import socket
import webbrowser
from collections.abc import Awaitable, Callable
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
from transduce.service.traces import FIELDS, TraceCache, parse_request, select_tensors
from transduce.training.run_folder import find_film

MAX_BODY = 1 << 20  # bytes
POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(
    worker: Translator | Generator, film: bytes | None = None, hosts: frozenset[str] | None = None
) -> Any:
    """Return the application; `hosts` are the host names it answers to, None for any."""
    from fastapi import FastAPI, Request, Response
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import HTMLResponse, JSONResponse
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    from transduce.inspection.page_export import export_html, page_html

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    traces = TraceCache(worker)

    def error_response(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    def page_response(content: str) -> HTMLResponse:
        found = POLICY.search(content)
        assert found, "the page has no content security policy"
        return HTMLResponse(
            content,
            headers={
                "Content-Security-Policy": html.unescape(found[1]) + "; frame-ancestors 'none'"
            },
        )

    @app.middleware("http")
    async def guard(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Reject unknown host names (DNS rebinding) and requests from pages of other origins."""
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if hosts is not None and re.sub(r":\d+$", "", host).lower() not in hosts:
            response: Response = error_response(
                400, f"host {host!r} is not allowed; use localhost or 127.0.0.1"
            )
        elif origin is not None and origin.partition("://")[2] != host:
            response = error_response(
                403,
                f"requests from pages of {origin!r} are not allowed; open the page of this server",
            )
        else:
            response = await call_next(request)
        response.headers.setdefault(
            "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"
        )
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(TransduceError)
    def on_error(request: Request, error: TransduceError) -> Response:
        if isinstance(error, MissingInputError):
            return error_response(404, str(error))
        if isinstance(error, DataError):
            return error_response(413, str(error))
        return error_response(400, str(error))

    @app.exception_handler(HTTPException)
    def on_http_error(request: Request, error: HTTPException) -> Response:
        return error_response(
            error.status_code, f"{request.method} {request.url.path}: {error.detail}"
        )

    @app.exception_handler(ClientDisconnect)
    def on_disconnect(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.get("/")
    def home() -> Response:
        return page_response(page_html("server", film=film))

    @app.post("/v1/inspect")
    async def inspect(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return error_response(
                    413, f"the request exceeds {MAX_BODY >> 20} MB; shorten the text"
                )
        return JSONResponse(await run_in_threadpool(traces.answer, parse_request(body)))

    @app.get("/v1/inspect/probe")
    def probe() -> Response:
        if film is None:
            raise MissingInputError(
                "this model has no training film; serve the run folder it was trained in"
            )
        return Response(film, media_type="application/octet-stream")

    @app.get("/v1/inspect/{name}.html")
    def download(name: str) -> Response:
        made = traces.get(name)
        return page_response(export_html(made, branches=make_branches(made), film=film))

    @app.get("/v1/inspect/{name}")
    def describe(name: str) -> Response:
        return JSONResponse(
            traces.answer({field: traces.get(name).meta[field] for field in FIELDS})
        )

    @app.get("/v1/inspect/{name}/tensors")
    def tensors(name: str, names: str = "") -> Response:
        return Response(
            select_tensors(traces.get(name), names).to_bytes(),
            media_type="application/octet-stream",
        )

    @app.get("/v1/inspect/{name}/diff/{other}")
    def diff(name: str, other: str) -> Response:
        found = traces.get(name).diff(traces.get(other))
        return JSONResponse({n: x if math.isfinite(x) else None for n, x in found.items()})

    return app


def serve(
    model: Path | None, host: str, port: int, open_page: bool, say: Callable[[str], None]
) -> None:
    """Serve the page until SIGINT or SIGTERM.

    `model` None is the built-in model; `port` 0 picks a free one. `say` gets one line for people.
    Raises UsageError without the "serve" extra, BusyError if the port is in use.
    """
    try:
        import uvicorn
        from fastapi import FastAPI  # noqa: F401  check that it is installed
    except ImportError:
        raise UsageError(
            "serve needs FastAPI and uvicorn; run pip install 'transduce[serve]'"
        ) from None

    listening = listen(host, port)
    worker = load(model, engine="torch")
    names = (
        frozenset({"localhost", "127.0.0.1", "[::1]", host.lower()}) if is_loopback(host) else None
    )
    if names is None:
        say(
            f"warning: everyone who can reach {host} can use this model; "
            "omit --host to serve only this machine"
        )
    app = make_app(worker, find_film(model), names)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
    )
    # uvicorn raises these signals again after its shutdown; the process would not exit with 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    say(f"serving at {address} (press Ctrl-C to stop)")
    if open_page:
        webbrowser.open(address)
    server.run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise BusyError if the port is in use.

    uvicorn itself would only log that error.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        raise OutputError(
            f"cannot listen on {host!r}: not a host name; use localhost or an IP address"
        ) from None
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                f"port {port} of {host} is in use; choose another --port (0 picks a free one)"
            ) from None
        raise OutputError(
            f"cannot listen on {host} port {port}: {error.strerror}; "
            "choose another --host or --port"
        ) from None
