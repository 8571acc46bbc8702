"""An embedder that remembers: vectors are kept in a SQLite file, so that each text is embedded once."""

from __future__ import annotations

import math
import os
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

from lore_retriever.embeddings.base import Embedder, EmbeddingSpace, Vector
from lore_retriever.embeddings.checking import unit_or_same
from lore_retriever.errors import EmbeddingFailed, InvalidInput

__all__ = ["CachedEmbedder"]

_BUSY_TIMEOUT_S = 60.0
_LOOKUP = 500
_BATCH = 64

_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    space TEXT NOT NULL,
    role TEXT NOT NULL,
    text_hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (space, role, text_hash)
) WITHOUT ROWID
"""


class CachedEmbedder:
    """Another embedder, with every vector kept in a file and read from there the next time.

    Vectors are kept as float32 under the embedder's space, whether they stand for a text or a query, and a
    hash of the text; the text itself is not kept. A file may serve several spaces, threads and processes.

    Args:
        embedder: Makes the vectors that are not in the file yet, in batches of 64, each kept when it is done.
        path: The file; made when missing, with its folder.

    Raises:
        InvalidInput: If the file exists and is no cache of vectors.
    """

    def __init__(self, embedder: Embedder, path: str | os.PathLike[str]) -> None:
        self._embedder = embedder
        self._path = Path(path)
        self._lock = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._opened_in = 0
        with self._connection():
            pass

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder inside."""
        return self._embedder.space

    @property
    def max_tokens(self) -> int | None:
        """The token window of the embedder inside."""
        return self._embedder.max_tokens

    @property
    def centre(self) -> Vector | None:
        """The centre of the embedder inside."""
        return self._embedder.centre

    def count_tokens(self, text: str) -> int:
        """What the embedder inside counts."""
        return self._embedder.count_tokens(text)

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each stored text, shape `(len(texts), dimensions)`."""
        return self._embed("text", texts, self._embedder.embed_texts)

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each query, shape `(len(texts), dimensions)`."""
        return self._embed("query", texts, self._embedder.embed_queries)

    def close(self) -> None:
        """Closes the file; the next call opens it again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_opened", None) is not None:
            self.close()

    def _embed(self, role: str, texts: Sequence[str], embed: Callable[[Sequence[str]], list[Vector]]) -> list[Vector]:
        keys = [_text_hash(text) for text in texts]
        stored = self._read(role, list(dict.fromkeys(keys)))
        found: dict[bytes, Vector] = {key: self._unpacked(blob) for key, blob in stored.items()}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        wanted = list(missing.items())
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            vectors = embed([text for _, text in batch])
            if len(vectors) != len(batch):
                raise EmbeddingFailed(f"the embedder returned {len(vectors)} vectors for {len(batch)} texts.")
            made = {key: unit_or_same(vector) for (key, _), vector in zip(batch, vectors, strict=True)}
            blobs = {key: _packed(vector) for key, vector in made.items() if self._is_storable(vector)}
            self._write(role, blobs)
            found.update(made)
            # As it will be read the next time: rounded to float32.
            found.update({key: self._unpacked(blob) for key, blob in blobs.items()})
        return [found[key] for key in keys]

    def _is_storable(self, vector: Sequence[float]) -> bool:
        """Whether to keep a vector; a zero or infinite one goes back to whoever knows the text's id."""
        return len(vector) == self.space.dimensions and abs(math.hypot(*vector) - 1.0) < 1e-3

    def _read(self, role: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._connection() as connection:
            for start in range(0, len(keys), _LOOKUP):
                some = keys[start : start + _LOOKUP]
                marks = ", ".join("?" * len(some))
                rows = connection.execute(
                    f"SELECT text_hash, vector FROM vectors WHERE space = ? AND role = ? "  # noqa: S608
                    f"AND text_hash IN ({marks})",
                    (self._space_name(), role, *some),
                )
                found.update(rows)
        return found

    def _write(self, role: str, blobs: dict[bytes, bytes]) -> None:
        space = self._space_name()
        with self._connection() as connection, connection:
            connection.executemany(
                "INSERT OR IGNORE INTO vectors (space, role, text_hash, vector) VALUES (?, ?, ?, ?)",
                [(space, role, key, blob) for key, blob in blobs.items()],
            )

    def _space_name(self) -> str:
        space = self.space
        return f"{space.model}@{space.revision}/{space.dimensions}"

    def _unpacked(self, blob: bytes) -> list[float]:
        if len(blob) != 4 * self.space.dimensions:
            raise self._unusable(f"a vector of {len(blob)} bytes where {4 * self.space.dimensions} belong")
        return list(struct.unpack(f"<{self.space.dimensions}f", blob))

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """This process's connection, for one thread at a time; says what to do when the file is damaged."""
        with self._lock:
            try:
                if self._opened is None or self._opened_in != os.getpid():
                    self._opened = _open(self._path)
                    self._opened_in = os.getpid()
                yield self._opened
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                self.close()
                raise self._unusable(str(error)) from error

    def _unusable(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self._path} is not a usable cache of vectors ({why}): delete it, or name another file.")


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        # Readers never wait for a writer, and a crash loses at most the last batch.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def _text_hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _packed(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)
