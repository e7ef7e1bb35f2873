"""Read `pytorch_model.bin`: a pickle that describes tensors, and their data.

Both are in a zip archive; before torch 1.6 the data followed the pickle in one plain file.

A pickle is a program. It runs here only if it consists of the few instructions that describe
tensors, and then with functions of ours that record what it describes. The description must agree
with the data. Only then torch's own loader, with `weights_only`, reads the file.
"""

import io
import pickle
import pickletools
import re
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transduce.errors import ModelError
from transduce.text.printable import list_words

MAX_ENTRIES = 100_000
MAX_PICKLE_BYTES = 1 << 22  # a model of 24 layers has 100 KB
MAX_MEMO = 1 << 20  # numbered values of a pickle; a larger number reserves memory
MAX_DIMENSIONS = 4
MAGIC_NUMBER, SEQUENCE_VERSION = 0x1950A86A20F9469CFC6C, 1001  # of torch's format before 1.6
ENTRY = re.compile(
    r"data\.pkl|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id"
    r"|data/[0-9]{1,9}"
)
STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
}
INSTRUCTIONS = re.compile(
    r"PROTO|STOP|MARK|NONE|NEWTRUE|NEWFALSE|BININT[12]?|LONG1|(SHORT_)?BINUNICODE"
    r"|(EMPTY_)?TUPLE|TUPLE[123]|EMPTY_LIST|APPENDS?|EMPTY_DICT|SETITEMS?"
    r"|GLOBAL|REDUCE|BUILD|BINPERSID|(LONG_)?BIN(PUT|GET)|MEMOIZE"
)
NUMBERED = ("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET")


class _Storage(NamedTuple):
    """The data of a tensor: an entry of the archive."""

    dtype: torch.dtype
    key: str
    n_values: int


class _Description(NamedTuple):
    """A tensor as the pickle describes it."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def read_torch_archive(content: bytes, path: Path) -> dict[str, Tensor]:
    """Return the tensors of a `pytorch_model.bin`; raise ModelError unless it holds only those."""

    def refused(problem: str) -> ModelError:
        return ModelError(
            f"{path}: {problem}; nothing in it was executed: use model.safetensors, "
            "or a file from a source you trust"
        )

    try:
        if content.startswith(b"PK\3\4"):
            sizes, program = _read_entries(content)
            described = _check_tensors(_describe(program))
        else:
            sizes, described = _read_sequence(content)
        _check_descriptions(described, sizes)
        weights: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        tensors = dict(weights)
        for name, tensor in tensors.items():
            if not isinstance(tensor, Tensor) or tensor.shape != described[name].shape:
                raise _RefusedError(
                    f"{list_words([name])} is not the tensor that its pickle describes"
                )
    except _RefusedError as error:
        raise refused(str(error)) from None
    except (zipfile.BadZipFile, pickle.UnpicklingError, RuntimeError, ValueError) as error:
        raise refused(f"it is damaged ({str(error)[:100]})") from None
    except (TypeError, AttributeError, LookupError, EOFError, NotImplementedError) as error:
        raise refused(f"it is damaged ({type(error).__name__})") from None
    return tensors


class _RefusedError(Exception):
    """The archive is not one of tensors only."""


def _read_entries(content: bytes) -> tuple[dict[str, int], bytes]:
    """Return the sizes of the tensors' data by key, and the pickle."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES:
            raise _RefusedError(
                f"it has {len(entries):,} entries, expected at most {MAX_ENTRIES:,}"
            )
        names = [entry.filename for entry in entries]
        if len(set(names)) < len(names):
            raise _RefusedError("an entry occurs twice")
        root = names[0].partition("/")[0] if names else ""
        for entry in entries:
            folder, _, name = entry.filename.partition("/")
            if folder in ("", ".", "..") or folder != root or not ENTRY.fullmatch(name):
                raise _RefusedError(
                    f"its entry {list_words([entry.filename])} is not one of tensors"
                )
            is_plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
            if not is_plain or entry.file_size != entry.compress_size:
                raise _RefusedError(
                    f"its entry {list_words([entry.filename])} is compressed or encrypted"
                )
        if sum(entry.file_size for entry in entries) > len(content):
            raise _RefusedError("its entries are larger than the file")
        sizes = {
            name.partition("/")[2]: entry.file_size
            for name, entry in zip(names, entries, strict=True)
        }
        if sizes.get("data.pkl", MAX_PICKLE_BYTES + 1) > MAX_PICKLE_BYTES:
            raise _RefusedError("its data.pkl is missing or too large")
        if "byteorder" in sizes and archive.read(f"{root}/byteorder") != b"little":
            raise _RefusedError("its numbers are not little-endian")
        return sizes, archive.read(f"{root}/data.pkl")


def _read_sequence(content: bytes) -> tuple[dict[str, int], dict[str, _Description]]:
    """Return the sizes of the tensors' data by key, and the descriptions, of a file before 1.6.

    It has five pickles (a magic number, the version, the byte order, the tensors, the keys of their
    data), then for each key the number of its values and the values.
    """
    stream = io.BytesIO(content)
    if not content.startswith(b"\x80") or _load_next(stream) != MAGIC_NUMBER:
        raise _RefusedError("it is neither a zip archive nor a sequence of pickles by torch")
    version, system, tensors, keys = (_load_next(stream) for _ in range(4))
    if version != SEQUENCE_VERSION:
        raise _RefusedError("it has an unknown version")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _RefusedError("its numbers are not little-endian")
    described = _check_tensors(tensors)
    storages = {each.storage.key: each.storage for each in described.values()}
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(storages):
        raise _RefusedError("its data are not those of its tensors")
    sizes = {}
    for key in keys:
        stored = int.from_bytes(stream.read(8), "little", signed=True)
        if stored != storages[key].n_values:
            raise _RefusedError("its data have another size than stated")
        sizes[f"data/{key}"] = stored * storages[key].dtype.itemsize
        stream.seek(sizes[f"data/{key}"], io.SEEK_CUR)
    if stream.tell() != len(content):
        raise _RefusedError("its data have another size than stated")
    return sizes, described


def _load_next(stream: io.BytesIO) -> Any:
    """Return what the next pickle of a file describes."""
    start = stream.tell()
    program = stream.read(MAX_PICKLE_BYTES)
    *_, (_, _, last) = pickletools.genops(program)
    n_bytes = (last or 0) + 1
    stream.seek(start + n_bytes)  # after the instruction STOP, which has one byte
    return _describe(program[:n_bytes])


def _describe(program: bytes) -> Any:
    """Return what a pickle describes, without calling anything but functions of this module."""
    for instruction, argument, _ in pickletools.genops(program):
        if not INSTRUCTIONS.fullmatch(instruction.name):
            raise _RefusedError(f"its pickle has the instruction {instruction.name}")
        if instruction.name in NUMBERED and not (argument is None or argument <= MAX_MEMO):
            raise _RefusedError("its pickle numbers more values than a model has")
        function = str(argument).replace(" ", ".")
        if instruction.name == "GLOBAL" and function not in _FUNCTIONS:
            raise _RefusedError(f"its pickle calls {list_words([function])}")
    return _Unpickler(io.BytesIO(program)).load()


def _check_tensors(described: Any) -> dict[str, _Description]:
    """Return what a pickle describes if it is tensors by name, and nothing else."""
    if not isinstance(described, dict):
        raise _RefusedError(f"it holds a {type(described).__name__}, expected a table of tensors")
    for name, value in described.items():
        if not isinstance(name, str) or not isinstance(value, _Description):
            raise _RefusedError(f"its entry {list_words([str(name)[:80]])} is not a tensor")
    return described


def _check_descriptions(described: Mapping[str, _Description], sizes: Mapping[str, int]) -> None:
    """Check that each tensor lies within its data, and is not larger than its data."""
    for name, (storage, offset, shape, stride) in described.items():
        n_bytes = storage.n_values * storage.dtype.itemsize
        if sizes.get(f"data/{storage.key}") != n_bytes:
            raise _RefusedError(f"the data of {list_words([name])} has another size than stated")
        numbers = (offset, *shape, *stride)
        is_number = all(type(number) is int and 0 <= number < 1 << 40 for number in numbers)
        if not is_number or len(shape) != len(stride) or len(shape) > MAX_DIMENSIONS:
            raise _RefusedError(f"the shape of {list_words([name])} is damaged")
        n_values = 1
        for size in shape:
            n_values *= size
        last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        if n_values > storage.n_values or (n_values and last >= storage.n_values):
            raise _RefusedError(f"{list_words([name])} is larger than its data")


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows the functions below and no others."""

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return _FUNCTIONS[f"{module}.{name}"]
        except KeyError:
            raise _RefusedError(f"its pickle calls {list_words([f'{module}.{name}'])}") from None

    def persistent_load(self, reference: Any, /) -> _Storage:
        kind, dtype, key, _, n_values, *view = reference
        if any(each is not None for each in view):  # of the older format
            raise _RefusedError("its pickle refers to a part of other data")
        is_sound = kind == "storage" and isinstance(dtype, torch.dtype)
        if not is_sound or not isinstance(key, str) or type(n_values) is not int or n_values < 0:
            raise _RefusedError("its pickle refers to something other than data of numbers")
        return _Storage(dtype, key, n_values)


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> _Description:
    if not isinstance(storage, _Storage):
        raise _RefusedError("its pickle describes a tensor without data")
    return _Description(storage, offset, tuple(shape), tuple(stride))


def _parameter(tensor: Any, *_: Any) -> Any:
    return tensor


# What a pickle of tensors may name, and what we put in its place.
_FUNCTIONS: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    **{f"torch.{name}": dtype for name, dtype in STORAGES.items()},
}
