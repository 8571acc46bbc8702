"""Files to memories: Markdown and text as one memory each, JSONL as one per line. No database.

Everything is read piece by piece, and what cannot be used is told by file and line instead of ending the rest.
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from lore_retriever import limits
from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import checked_memory, loaded_json, new_memory
from lore_retriever.types import NewMemory, Visibility

__all__ = ["Defaults", "Piece", "Source", "find_sources", "is_held", "read_glossary", "read_source"]

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".text", ".rst", ".adoc", ".org"})
LINES_SUFFIXES = frozenset({".jsonl", ".ndjson"})

MOST_LINE_BYTES = 16_000_000
"""Of one JSONL line: the longest content, every character escaped, and its metadata."""

_SPELLINGS = {"text": "content", "meta": "metadata"}
_FIELDS = frozenset(NewMemory.model_fields)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a memory gets where its file says nothing else."""

    kind: str = "document"
    visibility: Visibility = "private"


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        name: As shown in messages: the path as it was given, or reached from a given folder.
        id: Its path below the base, or the whole path; the id of its memory, or what ids of its lines begin with.
        size: Bytes, when it was found.
        refusal: Why it is not read, if so.
    """

    path: Path
    name: str
    id: str
    size: int = 0
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A memory read and where, or why there is none; `size` is how many bytes of the source it took."""

    size: int
    memory: NewMemory | None = None
    where: str = ""
    refusal: str | None = None


def find_sources(paths: Sequence[Path], *, base: Path) -> Iterator[Source]:
    """The files to read, folders walked in order of name, each file once; and what cannot be read, with the reason.

    In folders, hidden files and folders are left out, and files that are neither Markdown, text nor JSONL. Links to
    files are followed as long as they stay in the folder (a repository of somebody else's could name any file of this
    machine), links to folders are not.

    Args:
        paths: Files and folders. A file that is named itself is read whatever its suffix.
        base: Ids are paths from here where a file lies below it, else whole paths.
    """
    seen: set[str] = set()
    for given in paths:
        found = 0
        for source in _walk(given, base) if os.path.isdir(given) else [_source(given, base)]:
            found += 1
            real = os.path.realpath(source.path)
            if real not in seen:
                seen.add(real)
                yield source
        if not found:
            yield Source(
                given, str(given), "", refusal=f"{given} holds no Markdown, text or JSONL file that is not hidden."
            )


def _walk(folder: Path, base: Path) -> Iterator[Source]:
    unreadable: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(place, name)
            if name.startswith(".") or path.suffix.lower() not in TEXT_SUFFIXES | LINES_SUFFIXES:
                continue
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                outside = f"{path} is a link out of {folder}. Name the file itself if you mean it."
                yield Source(path, str(path), "", refusal=outside)
            else:
                yield _source(path, base)
    for error in unreadable:
        yield Source(
            Path(error.filename), str(error.filename), "", refusal=f"{error.filename} cannot be read: {error.strerror}."
        )


def _source(path: Path, base: Path) -> Source:
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(base))
    name = (real.relative_to(home) if real.is_relative_to(home) else real).as_posix()
    try:
        status = path.stat()
    except OSError as error:
        return Source(path, str(path), name, refusal=f"{path} cannot be read: {error.strerror}.")
    refusal = None
    if not stat.S_ISREG(status.st_mode):
        # A device or a pipe may never end.
        refusal = f"{path} is not a regular file. Save what it gives to a file first."
    return Source(path, str(path), name, status.st_size, refusal)


def read_source(source: Source, defaults: Defaults) -> Iterator[Piece]:
    """The memories of one file, checked; a piece with a refusal for each part that cannot be used."""
    if source.refusal is not None:
        yield Piece(source.size, refusal=source.refusal)
        return
    try:
        with source.path.open("rb") as file:
            if source.path.suffix.lower() in LINES_SUFFIXES:
                yield from _read_lines(file, source, defaults)
            else:
                yield _read_text(file, source, defaults)
    except OSError as error:
        yield Piece(0, refusal=f"{source.name} cannot be read: {error.strerror}.")


def _read_text(file: IO[bytes], source: Source, defaults: Defaults) -> Piece:
    most = 4 * limits.MAX_CONTENT_CHARS
    raw = file.read(most + 1)
    try:
        if len(raw) > most:
            raise InvalidInput(
                f"{source.name} has {source.size:,} bytes; one memory holds at most {limits.MAX_CONTENT_CHARS:,} characters."
                " Split it."
            )
        text = _decoded(raw, source.name)
        memory = new_memory(content=text, id=source.id, kind=defaults.kind, visibility=defaults.visibility)
        return Piece(source.size, _with_source(checked_memory(memory, what=source.name), source), source.name)
    except InvalidInput as error:
        return Piece(source.size, refusal=str(error))


def _read_lines(file: IO[bytes], source: Source, defaults: Defaults) -> Iterator[Piece]:
    for number, line in enumerate(_lines(file), start=1):
        where = f"line {number} of {source.name}"
        if number == 1 and b"\x00" in line:
            yield Piece(source.size, refusal=f"{source.name} is no JSONL: its first line holds a NUL byte.")
            return
        if not line.strip() or line == b"\xef\xbb\xbf":
            continue
        try:
            memory = _memory_of_line(line, where, f"{source.id}:{number}", defaults)
            yield Piece(len(line), _with_source(checked_memory(memory, what=where), source), where)
        except InvalidInput as error:
            yield Piece(len(line), refusal=str(error))


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines of a file; one that is too long comes with one byte more than is allowed, and the rest is passed over."""
    while line := file.readline(MOST_LINE_BYTES + 1):
        rest = line
        while len(rest) > MOST_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MOST_LINE_BYTES + 1)
        yield line


def _memory_of_line(line: bytes, where: str, default_id: str, defaults: Defaults) -> NewMemory:
    if len(line) > MOST_LINE_BYTES:
        raise InvalidInput(f"{where} has more than {MOST_LINE_BYTES:,} bytes. Split the memory.")
    fields = loaded_json(_decoded(line.rstrip(b"\r\n"), where), what=where)
    if not isinstance(fields, dict):
        raise InvalidInput(f'{where} holds {type(fields).__name__}, not an object. Write {{"text": "…"}} on each line.')
    try:
        given = _renamed(fields)
        return new_memory(**({"id": default_id, "kind": defaults.kind, "visibility": defaults.visibility} | given))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def _renamed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A line's fields under the names of `NewMemory`; those that are null count as absent."""
    given: dict[str, Any] = {}
    for name, value in fields.items():
        field = _SPELLINGS.get(name, name)
        if field not in _FIELDS:
            raise InvalidInput(
                f"the field {name!r} is unknown. Known are text, meta and {', '.join(sorted(_FIELDS))};"
                " put anything else into meta."
            )
        if field in given:
            raise InvalidInput(f"{field} is given twice, as {name!r} too. Keep one.")
        if value is not None:
            given[field] = value
    if "content" not in given:
        raise InvalidInput("there is no text. Give it as 'text' or 'content'.")
    return given


def _decoded(raw: bytes, where: str) -> str:
    if (place := raw.find(b"\x00")) >= 0:
        raise InvalidInput(f"{where} looks binary: it holds a NUL byte at position {place}. Give text in UTF-8.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{where} is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}. Convert it first, for example"
            " with iconv -f latin1 -t utf-8."
        ) from error


def _with_source(memory: NewMemory, source: Source) -> NewMemory:
    if memory.source is not None or len(source.id) > limits.MAX_NAME_CHARS:
        return memory
    return memory.model_copy(update={"source": source.id})


def read_glossary(path: Path) -> list[list[str]]:
    """Groups of names from a CSV file, one thing a line; blank lines and lines that begin with # are passed over.

    Raises:
        InvalidInput: If the file cannot be read, or a line holds fewer than two names; nothing is used then.
    """
    try:
        if not path.is_file():
            raise InvalidInput(f"{path} is no file. Give a CSV file with the names of one thing on each line.")
        if path.stat().st_size > MOST_LINE_BYTES:
            raise InvalidInput(f"{path} has {path.stat().st_size:,} bytes, too many for a glossary. Split it.")
        text = _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    groups = []
    for number, line in enumerate(text.splitlines(), start=1):
        names = [name.strip() for name in next(csv.reader([line], skipinitialspace=True), []) if name.strip()]
        if not names or names[0].startswith("#"):
            continue
        if len(names) < 2:
            raise InvalidInput(f"line {number} of {path} holds one name, {names[0]!r}; give the others after commas.")
        groups.append(names)
    return groups


def is_held(memory: NewMemory, row: Mapping[str, Any]) -> bool:
    """Whether a row of `own_states` shows that storing this memory again would change nothing.

    An invalidated memory counts as held: adding its file again does not bring it back.
    """
    fields = ("kind", "visibility", "pinned", "expires_at", "agent", "session", "source", "trust", "language")
    return (
        bytes(row["content_hash"]) == sha256(memory.content.encode()).digest()
        and all(getattr(memory, name) == row[name] for name in fields)
        and (memory.created_at is None or memory.created_at == row["created_at"])
        and dict(memory.metadata) == row["metadata"]
        and {*memory.aliases} == {*row["aliases"]}
    )
