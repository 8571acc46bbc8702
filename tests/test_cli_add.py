"""`add`: only what is missing, by words at once, and on from where it was interrupted."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli_tools import CommandLine, ana_of
from lore_retriever import Memories, MemoryStore


@pytest.fixture
def lore(app_database: str, database: str) -> CommandLine:
    return ana_of(app_database, database)


def corpus(path: Path, count: int, *, words: int = 30) -> Path:
    lines = [
        json.dumps({"id": f"doc-{n}", "text": f"unique{n} " + "filler " * words, "meta": {"n": n}})
        for n in range(count)
    ]
    path.write_text("\n".join(lines))
    return path


def counts(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return {name: value for name, value in found.items() if value}


def test_a_folder_is_added_once_and_then_only_what_changed(lore: CommandLine, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Gateway\n\nrestarts at two")
    (docs / "b.txt").write_text("harbour dues")
    (docs / "c.jsonl").write_text('{"text": "one"}\n{"text": "two", "id": "second"}\n')
    first = lore("add", str(docs), "--base", str(tmp_path), "--json")
    assert (first.exit_code, counts(first)) == (0, {"added": 4, "embedded": 4})
    assert counts(lore("add", str(docs), "--base", str(tmp_path), "--json")) == {"unchanged": 4}
    assert json.loads(lore("get", "docs/a.md", "--json").stdout)["version"] == 1

    (docs / "a.md").write_text("# Gateway\n\nrestarts at three")
    assert counts(lore("add", str(docs), "--base", str(tmp_path), "--json")) == {
        "replaced": 1,
        "unchanged": 3,
        "embedded": 1,
    }
    kinds = lore("add", str(docs), "--base", str(tmp_path), "--kind", "runbook", "--json")
    assert counts(kinds) == {"replaced": 4}
    stored = json.loads(lore("list", "--json").stdout)
    assert {memory["id"] for memory in stored} == {"docs/a.md", "docs/b.txt", "docs/c.jsonl:1", "second"}
    assert {memory["kind"] for memory in stored} == {"runbook"}


def test_what_was_invalidated_does_not_come_back_with_its_file(lore: CommandLine, tmp_path: Path) -> None:
    corpus(tmp_path / "n.jsonl", 2)
    lore("add", str(tmp_path))
    lore("invalidate", "doc-0")
    assert counts(lore("add", str(tmp_path), "--json")) == {"unchanged": 1, "invalidated": 1}
    assert [hit["id"] for hit in json.loads(lore("recall", "unique0", "--json").stdout)["hits"]] == ["doc-1"]


def test_where_nothing_can_be_read_what_waits_from_before_is_left_to_embed(lore: CommandLine, tmp_path: Path) -> None:
    lore("remember", "the tide is at four", "--id", "tide")
    corpus(tmp_path / "n.jsonl", 1)
    lore("add", str(tmp_path / "n.jsonl"), "--no-embed")
    result = lore("add", str(tmp_path / "typo.md"), "--json")
    assert result.exit_code == 1
    assert [json.loads(result.stdout)[name] for name in ("embedded", "waiting")] == [0, 1]
    assert counts(lore("add", str(tmp_path / "n.jsonl"), "--json")) == {"unchanged": 1, "embedded": 1}


def test_refused_parts_are_named_the_rest_is_stored_and_the_exit_code_is_1(lore: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_bytes(b'{"id": "a", "text": "alpha"}\n{broken\n{"id": "a", "text": "again"}\n{"text": "nul \\u0000"}\n')
    (tmp_path / "picture.md").write_bytes(b"\x89PNG\x00")
    result = lore("add", str(tmp_path), str(tmp_path / "missing.md"), "--json")
    assert result.exit_code == 1
    refused = json.loads(result.stdout)["refused"]
    assert [message for message in refused if "line 2 of" in message and "is not JSON" in message]
    assert [message for message in refused if "line 3 of" in message and "repeats the id 'a' of line 1" in message]
    assert [message for message in refused if "line 4 of" in message and "NUL" in message]
    assert [message for message in refused if "picture.md looks binary" in message]
    assert [message for message in refused if "missing.md cannot be read" in message]
    assert len(refused) == 5
    assert all(message in " ".join(result.stderr.split()) for message in refused)
    assert json.loads(lore("get", "a", "--json").stdout)["content"] == "alpha"


def test_a_thousand_refusals_are_counted_and_twenty_of_them_told(lore: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "n.jsonl").write_text("{broken\n" * 1_000)
    result = lore("add", str(tmp_path))
    assert result.exit_code == 1
    assert result.stdout == "0 added, 1,000 refused\n"
    assert result.stderr.count("refused: ") == 20


def test_an_id_that_a_colleague_shares_is_refused_alone(lore: CommandLine, store: MemoryStore, tmp_path: Path) -> None:
    store.as_user("acme", "ben").remember("ben's own", id="doc-1", visibility="shared")
    corpus(tmp_path / "n.jsonl", 3)
    result = lore("add", str(tmp_path), "--visibility", "shared", "--json")
    assert result.exit_code == 1
    assert counts(result)["added"] == 2
    [refusal] = json.loads(result.stdout)["refused"]
    assert "'doc-1'" in refused_text(refusal)
    assert store.as_user("acme", "ben").get("doc-1").content == "ben's own"


def refused_text(message: str) -> str:
    assert "shared memory of a colleague" in message
    return message


def test_a_visibility_that_is_none_is_refused_before_anything_is_stored(lore: CommandLine, tmp_path: Path) -> None:
    corpus(tmp_path / "n.jsonl", 1)
    assert lore("add", str(tmp_path), "--visibility", "public").exit_code == 1
    assert json.loads(lore("list", "--json").stdout) == []


def test_without_vectors_all_is_found_by_words_at_once(lore: CommandLine, tmp_path: Path) -> None:
    corpus(tmp_path / "n.jsonl", 100)
    result = lore("add", str(tmp_path), "--no-embed")
    assert result.exit_code == 0
    assert "100 stored" in result.stderr
    assert "100 memories wait for their vectors" in result.stderr
    [first, *_] = json.loads(lore("recall", "unique77", "--json").stdout)["hits"]
    assert first["id"] == "doc-77"
    assert set(first["legs"]) == {"exact", "relaxed"}


def test_an_interrupted_add_goes_on_from_where_it_was(
    lore: CommandLine, admin_connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    total = 1_500
    path = corpus(tmp_path / "n.jsonl", total)

    def stored() -> int:
        row = admin_connection.execute("SELECT count(*) FROM memories").fetchone()
        assert row is not None
        return int(row[0])

    process = lore.start("add", str(path), "--no-embed")
    try:
        deadline = time.monotonic() + 60
        while stored() < 64 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    finally:
        process.communicate()
    before = stored()
    assert 64 <= before < total

    again = lore("add", str(path), "--no-embed", "--json")
    assert counts(again) == {"unchanged": before, "added": total - before, "waiting": total}
    row = admin_connection.execute("SELECT count(*), count(DISTINCT id), max(version) FROM memories").fetchone()
    assert row == (total, total, 1)


# Vectors are there, and more are to come: so that an interruption finds the command at work, however slow the machine.
WAIT_AT_THE_SECOND_BATCH = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM lore.vectors) THEN PERFORM pg_sleep(4); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER wait BEFORE INSERT ON vectors FOR EACH STATEMENT EXECUTE FUNCTION wait();
"""


def test_vectors_that_an_interruption_left_out_are_made_by_the_next_add(
    lore: CommandLine, admin_connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    path = corpus(tmp_path / "n.jsonl", 300, words=2_000)
    admin_connection.execute(WAIT_AT_THE_SECOND_BATCH)

    def embedded() -> int:
        row = admin_connection.execute("SELECT count(*) FROM vectors").fetchone()
        assert row is not None
        return int(row[0])

    process = lore.start("add", str(path))
    try:
        deadline = time.monotonic() + 60
        while embedded() == 0 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "goes on from here" in stderr
    assert "Traceback" not in stderr

    admin_connection.execute("DROP TRIGGER wait ON vectors")
    again = lore("add", str(path), "--json")
    assert json.loads(again.stdout)["unchanged"] == 300
    assert json.loads(again.stdout)["waiting"] == 0
    row = admin_connection.execute(
        "SELECT count(*) FROM windows AS w WHERE NOT EXISTS (SELECT FROM vectors AS v WHERE v.key = w.key AND v.ordinal = w.ordinal)"
    ).fetchone()
    assert row == (0,)


def test_a_memory_of_another_user_is_never_replaced_by_a_file(
    lore: CommandLine, store: MemoryStore, ana: Memories, tmp_path: Path
) -> None:
    store.as_user("acme", "ben").remember("ben's private", id="doc-0")
    corpus(tmp_path / "n.jsonl", 1)
    assert counts(lore("add", str(tmp_path), "--json"))["added"] == 1
    assert ana.get("doc-0").content.startswith("unique0")
    assert store.as_user("acme", "ben").get("doc-0").content == "ben's private"
