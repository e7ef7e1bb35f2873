"""Read folders made by other programs: bounded sizes, regular files, nothing executed.

A file must lie inside the folder. A link is followed only inside one repository of Hugging Face's
cache, where a snapshot consists of links: models--ORG--NAME/snapshots/HASH/file -> ../../blobs/...
"""

import os
from pathlib import Path
from typing import Any

from transduce.errors import MissingInputError, ModelError
from transduce.storage import open_regular, parse_json

MAX_JSON_BYTES = 1 << 25  # vocab.json of the largest vocabularies has 8 MB
MAX_TEXT_BYTES = 1 << 20
MAX_VOCABULARY_BYTES = 1 << 26
MAX_WEIGHTS_BYTES = 1 << 32  # the largest OPUS-MT models have about 1 GB


class ForeignFolder:
    """A folder made by another program."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise MissingInputError(f"no folder {path}; check the path")
        if not path.is_dir():
            raise ModelError(f"{path} is not a folder; expected a folder with config.json")
        self.path = path
        real = Path(os.path.realpath(path))
        self._roots = [real]
        repository = real.parent.parent
        if real.parent.name == "snapshots" and repository.name.startswith("models--"):
            self._roots.append(repository / "blobs")

    @property
    def name(self) -> str:
        """The name of the model: that of the repository in a cache, or of the folder."""
        if len(self._roots) > 1:
            return self._roots[1].parent.name.removeprefix("models--").replace("--", "/")
        return self._roots[0].name

    def has(self, name: str) -> bool:
        """Return whether the folder has a file of this name, of whatever kind."""
        return os.path.lexists(self.path / name)

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the content of a file.

        Raise ModelError if it is missing, too large, not a regular file, or outside of the folder.
        """
        path = self.path / name
        try:
            with open_regular(path, within=self._roots) as file:
                n_bytes = os.fstat(file.fileno()).st_size
                if n_bytes > max_bytes:
                    raise ModelError(
                        f"{path} has {n_bytes:,} bytes, expected at most {max_bytes:,}; "
                        "it is not such a file of a model"
                    )
                return file.read(max_bytes + 1)
        except FileNotFoundError:
            raise ModelError(f"{path} is missing; download the whole folder again") from None
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from None

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file that holds an object."""
        try:
            value = parse_json(self.read(name, MAX_JSON_BYTES))
        except ValueError as error:
            raise ModelError(
                f"{self.path / name} is not valid JSON: {error}; download it again"
            ) from None
        if not isinstance(value, dict):
            raise ModelError(
                f"{self.path / name} contains a JSON {type(value).__name__}, expected an object"
            )
        return value

    def read_optional_json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file; empty if the folder has none."""
        return self.read_json(name) if self.has(name) else {}
