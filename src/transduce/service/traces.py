"""The traces of the inspector: parse requests, and cache the most recent traces."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from transduce.decode.generator import Generator
from transduce.decode.translator import Translator
from transduce.errors import MissingInputError, UsageError
from transduce.inspection.edits import parse_edits
from transduce.inspection.trace import Trace, trace, trace_id

MAX_TRACES = 8  # kept in memory
MAX_REQUESTS = 512  # remembered, so that their traces can be made again
FIELDS = {"text", "beam", "edits"}
Request = Mapping[str, Any]  # the FIELDS, as `parse_request` returns them


class TraceCache:
    """Traces by id. Recent ones are kept; older ones are computed again from their requests."""

    def __init__(self, worker: Translator | Generator) -> None:
        self._worker = worker
        self._lock = threading.Lock()  # one trace at a time, because each uses all cores
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._requests: OrderedDict[str, Request] = OrderedDict()

    def id_of(self, request: Request) -> str:
        """Return the id of a request, a hash of the request and the model."""
        return trace_id({**request, "model": {"fingerprint": self._worker.folder.fingerprint}})

    def make(self, request: Request) -> Trace:
        """Return the trace of a request, from the cache if it is there."""
        name = self.id_of(request)
        with self._lock:
            made = self._traces.pop(name, None) or trace(self._worker, **request)
            self._traces[name] = made
            self._requests.pop(name, None)
            self._requests[name] = request
            if len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)
            if len(self._requests) > MAX_REQUESTS:
                self._requests.popitem(last=False)
            return made

    def get(self, name: str) -> Trace:
        """Return a trace by its id; raise MissingInputError if it was never requested."""
        request = self._requests.get(name)
        if request is None:
            raise MissingInputError(f"no trace {name!r}; request it by POST /v1/inspect")
        return self.make(request)

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the answer to POST /v1/inspect; `parent` is the id of the trace without edits."""
        answer = {"id": self.id_of(request)}
        if request["edits"]:
            parent = {**request, "edits": []}
            self.make(parent)
            answer["parent"] = self.id_of(parent)
        made = self.make(request)
        tensors = [
            {"name": name, "shape": list(tensor.shape), "bytes": 2 * tensor.numel()}
            for name, tensor in made.tensors.items()
        ]
        return {**answer, "meta": made.meta, "tensors": tensors}


def parse_request(body: bytes) -> dict[str, Any]:
    """Parse the body of POST /v1/inspect; raise UsageError if it is not valid."""
    try:
        request = json.loads(body)
        json.dumps(request, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError("the request contains a lone surrogate; send valid Unicode") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}; send a JSON object") from None
    if (
        not isinstance(request, dict)
        or type(request.get("text")) is not str
        or set(request) - FIELDS
    ):
        raise UsageError(
            "the request has no text or unknown fields; "
            'expected {"text": "...", "beam": 4, "edits": [...]}, beam and edits are optional'
        )
    beam, edits = request.get("beam"), request.get("edits", [])
    is_valid_beam = beam is None or type(beam) is int
    if not is_valid_beam or not isinstance(edits, list):
        raise UsageError("the request has an invalid beam or edits; expected an integer and a list")
    return {"text": request["text"], "beam": beam, "edits": parse_edits(edits)}


def select_tensors(made: Trace, names: str) -> Trace:
    """Return the trace with the tensors that match `names`, comma-separated patterns."""
    patterns = [name for name in names.split(",") if name]
    chosen = {
        name: tensor
        for name, tensor in made.tensors.items()
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    if not chosen:
        raise MissingInputError(f"no tensor {names!r}; known: {', '.join(made.tensors)}")
    return Trace(made.meta, chosen)
