"""The inspector's server: its numbers are the trace's, ids follow from requests, origins matter."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
from safetensors.torch import load as load_tensors
from starlette.testclient import TestClient

from tests.commands import Run
from transduce.decode.load import load
from transduce.decode.translator import Translator
from transduce.errors import MissingInputError
from transduce.inspection.trace import trace, trace_id
from transduce.service import traces as server
from transduce.service.inspector import is_loopback, make_app
from transduce.service.traces import TraceCache

TEXT = "I love you very much"
HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
MUTE = {"op": "mute", "at": "dec.1.cross", "head": 0}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(engine="torch")


@pytest.fixture(scope="module")
def client(translator: Translator) -> Iterator[TestClient]:
    with TestClient(
        make_app(translator, b"a film", HOSTS), base_url="http://127.0.0.1:8000"
    ) as client:
        yield client


def row_edit(value: str) -> str:
    """The body of a request in which the value of an attention weight is this JSON."""
    edit = f'{{"op": "row", "at": "dec.1.cross", "head": 0, "row": 0, "values": [{value}]}}'
    return f'{{"text": "I love you", "edits": [{edit}]}}'


def post(client: TestClient, **asked: Any) -> dict[str, Any]:
    answer = client.post("/v1/inspect", json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_id_of_a_trace_follows_from_the_request_and_its_tensors_are_the_models(
    client: TestClient, translator: Translator
) -> None:
    found = post(client, text=TEXT)
    own = trace(translator, TEXT)
    assert found["id"] == trace_id(own.meta) == post(client, text=TEXT, beam=None, edits=[])["id"]
    assert found["meta"].keys() == own.meta.keys()
    for name in ("target", "model", "text", "edits", "vocabulary"):
        assert found["meta"][name] == own.meta[name]
    assert "parent" not in found
    assert {each["name"]: each["shape"] for each in found["tensors"]} == {
        n: list(t.shape) for n, t in own.tensors.items()
    }
    answer = client.get(f"/v1/inspect/{found['id']}/tensors?names=dec.*.cross.weights,logits")
    tensors = load_tensors(answer.content)
    assert tensors.keys() == {"dec.0.cross.weights", "dec.1.cross.weights", "logits"}
    for name, tensor in tensors.items():
        assert (tensor.float() - own[name]).abs().max() < 1e-2  # the precision of float16
    whole = client.get(f"/v1/inspect/{found['id']}/tensors").content
    assert len(load_tensors(whole)) == len(own.tensors)
    assert client.get(f"/v1/inspect/{found['id']}").json() == found


def test_a_branch_names_its_parent_and_differs_from_it_after_the_edit_only(
    client: TestClient,
) -> None:
    parent = post(client, text=TEXT)["id"]
    branch = post(client, text=TEXT, edits=[MUTE])
    assert branch["parent"] == parent != branch["id"]
    difference = client.get(f"/v1/inspect/{parent}/diff/{branch['id']}").json()
    assert difference["dec.1.cross.weights"] == 0
    assert difference["dec.1.cross.heads"] > 0
    shorter = post(client, text="I love you")["id"]
    assert client.get(f"/v1/inspect/{parent}/diff/{shorter}").json()["enc.out"] is None


def test_a_trace_evicted_from_the_cache_is_made_again(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_TRACES", 1)
    monkeypatch.setattr(server, "MAX_REQUESTS", 2)
    traces = TraceCache(translator)
    asked = [
        {"text": text, "beam": 1, "edits": []} for text in ("I love you", "We sleep", "You sleep")
    ]
    names = [traces.answer(each)["id"] for each in asked[:2]]
    assert traces.get(names[0]).meta["text"] == "I love you"
    traces.make(asked[2])  # the third evicts the least recently used one
    assert traces.get(names[0]).meta["beam"] == 1
    with pytest.raises(
        MissingInputError, match=f"no trace '{names[1]}'; request it by POST /v1/inspect"
    ):
        traces.get(names[1])
    client = TestClient(make_app(translator), base_url="http://any.name")
    answer = client.get("/v1/inspect/0123456789/tensors")
    assert (answer.status_code, answer.json()) == (
        404,
        {"error": "no trace '0123456789'; request it by POST /v1/inspect"},
    )


def test_the_page_and_the_page_in_one_file(client: TestClient) -> None:
    name = post(client, text="I love you")["id"]
    for path in ("/", f"/v1/inspect/{name}.html"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        policy = answer.headers["content-security-policy"]
        assert re.search(r"default-src 'none'; script-src 'sha256-[\w+/]+='; ", policy)
        assert policy.endswith("frame-ancestors 'none'")
        assert "unsafe" not in policy.partition("style-src")[0]
    assert client.get("/v1/inspect/probe").content == b"a film"


def test_every_answer_carries_the_headers_that_keep_others_out(client: TestClient) -> None:
    for path in ("/v1/inspect/probe", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == (
            "nosniff",
            "no-referrer",
        )
        assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "", "10.0.0.1"])
def test_another_name_for_this_machine_gets_nothing(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"Host": host})
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": f"host {host!r} is not allowed; use localhost or 127.0.0.1"},
    )


def test_a_page_of_another_site_gets_nothing(client: TestClient) -> None:
    answer = client.post(
        "/v1/inspect", json={"text": TEXT}, headers={"Origin": "https://evil.example"}
    )
    assert (answer.status_code, answer.json()["error"]) == (
        403,
        "requests from pages of 'https://evil.example' are not allowed; "
        "open the page of this server",
    )
    for origin in ("http://evil127.0.0.1:8000", "http://evil.example/127.0.0.1:8000", "null"):
        answer = client.get("/v1/inspect/probe", headers={"Origin": origin})
        assert (origin, answer.status_code) == (origin, 403)
    own = {"Origin": "http://127.0.0.1:8000"}
    assert client.post("/v1/inspect", json={"text": "We sleep"}, headers=own).status_code == 200
    for name in ("localhost:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/v1/inspect/probe", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "the request is not JSON: "),
        ("[" * 100_000, 400, "the request is not JSON: "),
        (
            '{"text": "\\ud83d"}',
            400,
            "the request contains a lone surrogate; send valid Unicode",
        ),
        (
            "[]",
            400,
            'expected {"text": "...", "beam": 4, "edits": [...]}, beam and edits are optional',
        ),
        ({"text": 3}, 400, 'expected {"text": "..."'),
        ({"text": TEXT, "mode": 1}, 400, 'expected {"text": "..."'),
        (
            {"text": TEXT, "beam": "4"},
            400,
            "an invalid beam or edits; expected an integer and a list",
        ),
        (
            {"text": TEXT, "edits": {}},
            400,
            "an invalid beam or edits; expected an integer and a list",
        ),
        (
            {"text": TEXT, "edits": {"op": "no_mask"}},
            400,
            "an invalid beam or edits; expected an integer and a list",
        ),
        (
            {"text": TEXT, "edits": ["mute"]},
            400,
            'edit \'mute\' is not an object; expected one such as {"op": "no_mask"}',
        ),
        (
            {"text": TEXT, "edits": [{"op": "paint"}]},
            400,
            "unknown edit 'paint'; known: mute, row, ",
        ),
        ({"text": TEXT, "beam": 0}, 400, "decode.beam is 0"),
        ({"text": "  "}, 400, "the text is blank"),
        (
            {"text": f"{TEXT} " * 30},
            413,
            "at most 128 can be traced; shorten it, the excess begins at 'very much",
        ),
        ({"text": "x" * (1 << 20)}, 413, "the request exceeds 1 MB; shorten the text"),
        (row_edit("9" * 400), 400, "edit 'row': values must be finite numbers"),
        (row_edit("9" * 5000), 400, "the request is not JSON: "),
        (row_edit("1e999"), 400, "edit 'row': values must be finite numbers"),
        (row_edit("NaN"), 400, "edit 'row': values must be finite numbers"),
        (row_edit("1e300"), 400, "edit 'row': values must be finite numbers"),
        (row_edit("[" * 5000 + "]" * 5000), 400, ""),
        ({"text": TEXT, "beam": 10**400}, 400, "decode.beam is 1000"),
        ({"text": TEXT, "beam": -1}, 400, "decode.beam is -1"),
        (
            {"text": TEXT, "edits": [{"op": "mute", "at": "dec.1.cross", "head": 10**400}]},
            400,
            "0000; dec.1.cross has heads 0 to 3",
        ),
        (
            {"text": TEXT, "edits": [{"op": "force", "step": 10**400, "piece": 5}]},
            400,
            "edit 'force': no step 1000",
        ),
        (
            {"text": TEXT, "edits": [{"op": "replace", "word": 10**400, "with": "x"}]},
            400,
            "edit 'replace': no word 1000",
        ),
        ({"text": TEXT, "edits": [{"op": ["mute"]}]}, 400, "unknown edit ['mute']"),
        ({"text": TEXT, "edits": [{}] * 40}, 400, "40 edits; combine at most 32"),
        (b"\xff\xfe\x00", 400, "the request is not JSON: "),
        (b"", 400, "the request is not JSON: "),
    ],
)
def test_invalid_requests_get_a_reason_as_json(
    client: TestClient, body: Any, status: int, message: str
) -> None:
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    answer = client.post("/v1/inspect", content=content)
    assert answer.status_code == status
    assert answer.json().keys() == {"error"}
    assert message in answer.json()["error"]


def test_unknown_paths_methods_and_tensors_are_errors_in_json(client: TestClient) -> None:
    name = post(client, text=TEXT)["id"]
    for method, path, status, message in (
        ("GET", "/docs", 404, "GET /docs: Not Found"),
        ("GET", "/openapi.json", 404, "GET /openapi.json: Not Found"),
        ("DELETE", "/v1/inspect", 405, "DELETE /v1/inspect: Method Not Allowed"),
        ("GET", f"/v1/inspect/{name}/tensors?names=nothing", 404, "no tensor 'nothing'; known: "),
        ("GET", "/v1/inspect/gone.html", 404, "no trace 'gone'; request it by POST /v1/inspect"),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status
        assert answer.json()["error"].startswith(message)


def test_a_missing_film_is_reported(translator: Translator) -> None:
    answer = TestClient(make_app(translator)).get("/v1/inspect/probe")
    assert (answer.status_code, answer.json()) == (
        404,
        {"error": "this model has no training film; serve the run folder it was trained in"},
    )


def test_hostile_text_stays_text(client: TestClient) -> None:
    text = "</script><img src=x onerror=alert(1)> \x00 \U0001f600 \u202e"
    found = post(client, text=text)
    assert found["meta"]["source"]["text"] == text
    assert "<img src=x" not in client.get(f"/v1/inspect/{found['id']}.html").text


def test_serve_runs_as_a_process_and_ends_by_signal() -> None:
    command = [sys.executable, "-m", "transduce", "serve", "--port", "0"]
    pipe: Any = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    for number, process in [
        (each, subprocess.Popen(command, **pipe)) for each in (signal.SIGTERM, signal.SIGINT)
    ]:
        assert process.stderr is not None
        said = process.stderr.readline()
        address = re.fullmatch(
            r"serving at (http://127\.0\.0\.1:(\d+)/) \(press Ctrl-C to stop\)\n", said
        )
        assert address, said
        asked = urllib.request.Request(
            f"{address[1]}v1/inspect", json.dumps({"text": TEXT}).encode()
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["meta"]["target"]["text"] == "Ti amo molto"
            assert answer.headers["server"] is None
        other = urllib.request.Request(address[1], headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(other, timeout=60)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")


def test_a_client_that_leaves_in_the_middle_of_a_request_leaves_no_message() -> None:
    command = [sys.executable, "-m", "transduce", "serve", "--port", "0"]
    pipe: Any = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipe)
    assert process.stderr is not None
    address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stderr.readline())
    assert address
    head = "POST /v1/inspect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", int(address[1])), timeout=60) as client:
            client.sendall(head.encode())
    with urllib.request.urlopen(address[0], timeout=60) as answer:
        assert answer.status == 200, "it goes on"
    os.kill(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_a_port_in_use_is_reported(transduce: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = transduce("serve", "--port", port)
    assert code == 75
    assert (
        err == f"transduce: error: port {port} of 127.0.0.1 is in use; "
        "choose another --port (0 picks a free one)\n"
    )
    code, _, err = transduce("serve", "--host", "203.0.113.7")
    assert (code, "cannot listen on 203.0.113.7 port 8000: " in err) == (73, True)


def test_without_the_extra_the_command_says_what_to_install(
    transduce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = transduce("serve")
    assert (code, err) == (
        2,
        "transduce: error: serve needs FastAPI and uvicorn; run pip install 'transduce[serve]'\n",
    )


def test_open_opens_the_page_and_a_public_address_gives_a_warning(
    transduce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import uvicorn

    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, sockets: [each.close() for each in sockets]
    )
    code, _, err = transduce("serve", "--port", 0, "--open", "--host", "0.0.0.0")
    assert code == 0
    assert err.startswith(
        "warning: everyone who can reach 0.0.0.0 can use this model; "
        "omit --host to serve only this machine\nserving at http://0.0.0.0:"
    )
    assert opened
    assert opened[0] in err
    assert [is_loopback(host) for host in ("localhost", "::1", "127.0.0.2", "0.0.0.0", "host")] == [
        True
    ] * 3 + [False] * 2
