"""Run the page's modules in Node: a script reads `input` and calls `answer(value)`."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

PAGE = Path(__file__).parents[2] / "src" / "transduce" / "inspection" / "page"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
BEGIN = """
import { readFileSync, writeFileSync } from "node:fs";
import { openModel } from "./model.js";
import { cleanText, Pieces, splitWords } from "./pieces.js";
const input = JSON.parse(readFileSync("input.json", "utf8"));
const answer = (value) => writeFileSync("answer.json", JSON.stringify(value));
const base64 = ({ buffer, byteOffset, byteLength }) =>
  Buffer.from(buffer, byteOffset, byteLength).toString("base64");
const tensor = ({ shape, data }) => ({ shape, data: base64(data) });
const whole = (trace) => ({
  meta: trace.meta,
  tensors: trace.names().map((name) => [name, tensor(trace.get(name))]),
});
const open = (path) => openModel(new Uint8Array(readFileSync(path)));
"""


def run_js(folder: Path, script: str, asked: Any) -> Any:
    """Run a script and return the value it passed to `answer`."""
    assert NODE is not None, "tests that use this are marked needs_node"
    for module in PAGE.glob("*.js"):
        shutil.copy(module, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "input.json").write_text(json.dumps(asked), encoding="utf-8")
    (folder / "script.js").write_text(BEGIN + script, encoding="utf-8")
    done = subprocess.run([NODE, "script.js"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "answer.json").read_text(encoding="utf-8"))


def to_tensor(answer: Any) -> Tensor:
    """Convert a tensor in the answer of a script."""
    numbers = np.frombuffer(base64.b64decode(answer["data"]), dtype=np.float32)
    return torch.from_numpy(numbers.copy()).view(answer["shape"])
