"""Files become memories, and what cannot become one is told by file and line."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lore_retriever import InvalidInput, NewMemory, ingest
from lore_retriever.ingest import Defaults, Piece, find_sources, is_held, read_glossary, read_source
from lore_retriever.limits import MAX_CONTENT_CHARS


def read(*paths: Path, base: Path, defaults: Defaults | None = None) -> list[Piece]:
    wanted = defaults or Defaults()
    return [piece for source in find_sources(paths, base=base) for piece in read_source(source, wanted)]


def memories(pieces: list[Piece]) -> list[NewMemory]:
    return [piece.memory for piece in pieces if piece.memory is not None]


def refusals(pieces: list[Piece]) -> list[str]:
    return [piece.refusal for piece in pieces if piece.refusal is not None]


def lines_file(path: Path, *lines: object) -> Path:
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    return path


def test_a_markdown_file_is_one_memory_named_by_its_path_below_the_base(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = "# Gateway\r\n\r\nRestart it — twice.\n"
    (tmp_path / "docs" / "gateway.md").write_bytes(text.encode())
    [memory] = memories(read(tmp_path / "docs" / "gateway.md", base=tmp_path, defaults=Defaults("runbook", "shared")))
    assert (memory.id, memory.content, memory.source) == ("docs/gateway.md", text, "docs/gateway.md")
    assert (memory.kind, memory.visibility) == ("runbook", "shared")


def test_the_id_of_a_file_does_not_depend_on_how_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("alpha")
    monkeypatch.chdir(tmp_path / "docs")
    spellings = [Path("a.md"), Path("../docs/a.md"), tmp_path / "docs" / "a.md", Path(".")]
    assert {memory.id for path in spellings for memory in memories(read(path, base=tmp_path))} == {"docs/a.md"}
    assert len(read(*spellings, base=tmp_path)) == 1


def test_a_file_outside_the_base_is_named_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("alpha")
    [memory] = memories(read(tmp_path / "a.md", base=tmp_path / "elsewhere"))
    assert memory.id == (tmp_path / "a.md").resolve().as_posix()


def test_a_folder_gives_its_text_files_in_order_and_leaves_out_hidden_and_other_ones(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", "sub/c.MARKDOWN", ".hidden.md", ".git/d.md", "picture.png", "sub/data.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("words")
    assert [memory.id for memory in memories(read(tmp_path, base=tmp_path))] == ["a.txt", "b.md", "sub/c.MARKDOWN"]


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("alpha")
    (tmp_path / "round").symlink_to(tmp_path, target_is_directory=True)
    assert len(read(tmp_path, base=tmp_path)) == 1


def test_jsonl_lines_keep_their_ids_and_metadata_under_either_spelling(tmp_path: Path) -> None:
    path = lines_file(
        tmp_path / "notes.jsonl",
        {"id": "one", "text": "alpha", "meta": {"team": "infra"}},
        {"id": "two", "content": "bravo", "metadata": {"n": 9}, "kind": "decision", "pinned": True},
        b"",
        {"text": "charlie", "meta": None, "created_at": "2026-01-02T03:04:05Z"},
    )
    first, second, third = memories(read(path, base=tmp_path))
    assert (first.id, first.content, first.metadata, first.kind) == ("one", "alpha", {"team": "infra"}, "document")
    assert (second.content, second.metadata, second.kind, second.pinned) == ("bravo", {"n": 9}, "decision", True)
    assert (third.id, third.created_at) == ("notes.jsonl:4", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"text": "broken', r"line 2 of .*notes\.jsonl is not JSON: Unterminated string .*column 10"),
        (b'{"text": "a", "id": "x", "id": "y"}', r"line 2 of .* names 'id' twice"),
        (b'{"text": "a", "created_at": 2025}', r"line 2 of .* created_at is 2025: .*not a number"),
        (b'{"text": "a", "expires_at": "1.5"}', r"line 2 of .* expires_at is '1.5': .*not a number"),
        (b"[1, 2]", r"line 2 of .* holds list, not an object"),
        (b'{"id": "x"}', r"line 2 of .*: there is no text"),
        (b'{"text": "a", "content": "b"}', r"line 2 of .*: content is given twice"),
        (b'{"text": "a", "colour": 1}', r"line 2 of .*: the field 'colour' is unknown"),
        (b'{"text": 5}', r"line 2 of .*: content is 5"),
        (b'{"text": "a\\u0000b"}', r"line 2 of .* NUL character .* position 1"),
        (b'{"text": "a\\ud800b"}', r"line 2 of .* lone surrogate .* position 1"),
        (b'{"text": "a", "meta": {"lore_kind": "x"}}', r"line 2 of .*lore_kind.* reserved"),
        (b'{"text": "a", "meta": {"n": NaN}}', r"line 2 of .*\['n'\] is nan"),
        (b'{"text": "a", "id": ""}', r"the id of line 2 of .* holds nothing"),
        (b'{"text": "   "}', r"the content of line 2 of .* holds nothing"),
        (b'{"text": "a", "visibility": "public"}', r"line 2 of .*: visibility is 'public'"),
        (b'{"text": "\xe9t\xe9"}', r"line 2 of .* is not UTF-8: byte 0xe9 at position 10"),
        (b'{"text": ' + b"[" * 100_000, r"line 2 of .* JSON that cannot be read"),
        (b'{"text": ' + b"9" * 10_000 + b"}", r"line 2 of .* JSON that cannot be read"),
        (json.dumps({"text": "x" * (MAX_CONTENT_CHARS + 1)}).encode(), r"line 2 of .* has 2,000,001 characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_cannot_be_used_is_named_and_the_others_are_read(tmp_path: Path, line: bytes, told: str) -> None:
    path = lines_file(tmp_path / "notes.jsonl", {"id": "before", "text": "a"}, line, {"id": "after", "text": "b"})
    pieces = read(path, base=tmp_path)
    assert [memory.id for memory in memories(pieces)] == ["before", "after"]
    [refusal] = refusals(pieces)
    assert_told(refusal, told)


def assert_told(text: str, pattern: str) -> None:
    with pytest.raises(InvalidInput, match=pattern):
        raise InvalidInput(text)


def test_a_line_without_end_is_passed_over_without_being_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_LINE_BYTES", 1_000)
    path = lines_file(tmp_path / "n.jsonl", {"text": "a"}, b"x" * 3_500, {"text": "b"})
    pieces = read(path, base=tmp_path)
    assert [memory.content for memory in memories(pieces)] == ["a", "b"]
    assert_told(refusals(pieces)[0], r"line 2 of .* more than 1,000 bytes")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbfalpha")
    path = tmp_path / "b.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "bravo"}\n')
    assert [memory.content for memory in memories(read(tmp_path, base=tmp_path))] == ["alpha", "bravo"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("picture.md", b"\x89PNG\r\n\x1a\n\x00\x00", r"picture\.md looks binary: .* NUL byte at position 8"),
        ("old.txt", "Grüße".encode("latin-1"), r"old\.txt is not UTF-8: byte 0xfc at position 2"),
        ("wide.md", "words".encode("utf-16"), r"wide\.md looks binary"),
        ("empty.md", b"", r"the content of .*empty\.md .* holds nothing"),
        ("long.md", b"x" * (MAX_CONTENT_CHARS + 1), r"long\.md has 2,000,001 characters"),
        ("huge.md", b"x" * (4 * MAX_CONTENT_CHARS + 1), r"huge\.md has 8,000,001 bytes"),
        ("rows.jsonl", b"\x00\x01\x02", r"rows\.jsonl is no JSONL: its first line holds a NUL byte"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    pieces = read(tmp_path / name, base=tmp_path)
    assert memories(pieces) == []
    assert_told(refusals(pieces)[0], told)


def test_what_is_not_there_or_never_ends_is_refused_and_the_rest_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.md").write_text("alpha")
    given = [tmp_path / "missing.md", tmp_path / "pipe.md", Path("/dev/zero"), tmp_path / "empty", tmp_path / "a.md"]
    pieces = read(*given, base=tmp_path)
    assert [memory.content for memory in memories(pieces)] == ["alpha"]
    missing, pipe, device, empty = refusals(pieces)
    assert_told(missing, r"missing\.md cannot be read: No such file")
    assert_told(pipe, r"pipe\.md is not a regular file")
    assert_told(device, r"/dev/zero is not a regular file")
    assert_told(empty, r"empty holds no Markdown, text or JSONL file")


def held_row(memory: NewMemory, **changes: Any) -> dict[str, Any]:
    fields = memory.model_dump()
    return {
        **fields,
        "aliases": list(memory.aliases),
        "content_hash": sha256(memory.content.encode()).digest(),
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "invalidated_at": None,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"invalidated_at": datetime(2026, 2, 1, tzinfo=UTC)}, True),
        ({"content_hash": b"other"}, False),
        ({"metadata": {"a": 2}}, False),
        ({"kind": "fact"}, False),
        ({"visibility": "shared"}, False),
        ({"aliases": ["k8s"]}, False),
        ({"source": None}, False),
    ],
)
def test_only_a_memory_that_is_the_same_in_every_field_counts_as_held(changes: dict[str, Any], expected: bool) -> None:
    memory = NewMemory(content="alpha", id="m", kind="document", metadata={"a": 1}, source="a.md")
    assert is_held(memory, held_row(memory, **changes)) is expected


def test_a_given_date_is_compared_and_an_absent_one_is_not() -> None:
    memory = NewMemory(content="alpha", id="m", created_at=datetime(2025, 1, 1, tzinfo=UTC))
    assert not is_held(memory, held_row(memory))
    assert is_held(memory, held_row(memory, created_at=datetime(2025, 1, 1, tzinfo=UTC)))


def test_a_glossary_gives_one_group_of_names_a_line(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text('# ours\nKubernetes, k8s , kube\n\n"Weiss, Magdalena", @lenaw\n', encoding="utf-8")
    assert read_glossary(path) == [["Kubernetes", "k8s", "kube"], ["Weiss, Magdalena", "@lenaw"]]


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"a, b\nalone\n", "line 2 .* holds one name, 'alone'"), (b"\xff, b", "is not UTF-8"), (None, "is no file")],
)
def test_a_glossary_that_cannot_be_used_is_refused_as_a_whole(tmp_path: Path, content: bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / "names.csv").write_bytes(content)
    with pytest.raises(InvalidInput, match=told):
        read_glossary(tmp_path / "names.csv")


def test_a_link_out_of_the_folder_is_told_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("not for memory")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "own.md").write_text("a note")
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "within.md").symlink_to(folder / "own.md")
    sources = list(find_sources([folder], base=folder))
    assert [source.id for source in sources if source.refusal is None] == ["own.md"]
    [refused] = [source.refusal for source in sources if source.refusal]
    assert "is a link out of" in refused
    [named] = find_sources([folder / "out.md"], base=folder)
    assert named.refusal is None
