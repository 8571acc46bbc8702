"""What comes between an import and its end: other imports, other writers, what was left of a user, a server that says no."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lore_retriever import InvalidInput, LoreError, MemoryStore, StoreUnavailable
from lore_retriever.admin import StoreAdmin
from lore_retriever.exported import FORMAT
from support import as_service

CLAIM = r"SELECT pg_try_advisory_xact_lock(hashtextextended(concat_ws(E'\x01', 'lore import', 'lore'), 0))"


@pytest.fixture
def admin(database: str) -> StoreAdmin:
    return StoreAdmin.connect(database)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """A file with these memories, each on top of what every line needs."""

    def write(*memories: dict[str, Any]) -> Path:
        needed = {"org": "acme", "owner": "ana", "created_at": "2025-01-01T00:00:00Z"}
        lines = [{"format": FORMAT}, *({"memory": needed | {"content": f"of {m['id']}"} | m} for m in memories)]
        path = tmp_path / "in.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines))
        return path

    return write


def stored(admin: StoreAdmin) -> list[tuple[str, str, str]]:
    with admin.service() as cursor:
        rows = cursor.execute("SELECT owner, id, content FROM memories ORDER BY owner, id").fetchall()
    return [(row["owner"], row["id"], row["content"]) for row in rows]


def test_one_import_at_a_time_writes_into_a_store(admin: StoreAdmin, database: str, written: Any) -> None:
    path = written({"id": "m"})
    with psycopg.connect(database) as another:
        assert another.execute(CLAIM).fetchone() == (True,)
        for jobs in (1, 3):
            with pytest.raises(StoreUnavailable, match="another import is writing into this store"):
                admin.import_jsonl(path, jobs=jobs)
    assert admin.import_jsonl(path, jobs=3)["stored"] == 1


def test_shares_do_not_wait_for_ever_for_another_writer(admin: StoreAdmin, database: str, written: Any) -> None:
    path = written(*({"id": f"m{n}"} for n in range(400)))
    with as_service(database) as writer:
        writer.execute(
            "INSERT INTO memories (org, owner, id, content) VALUES ('acme', 'ana', 'm7', 'of somebody else')"
        )
        with pytest.raises(StoreUnavailable, match="another transaction is writing the same rows"):
            admin.import_jsonl(path, jobs=3)
        writer.rollback()
    assert stored(admin) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lore-share")]


@pytest.mark.parametrize(("jobs", "fault"), [(1, "m450"), (3, "m999")])
def test_a_hook_that_fails_ends_an_import_that_waits_for_a_lock(
    admin: StoreAdmin, database: str, written: Any, jobs: int, fault: str
) -> None:
    def look(memory: Any) -> Any:
        if memory.id == fault:
            raise KeyboardInterrupt
        return memory

    path = written(*({"id": f"m{n}"} for n in range(1000)))
    with as_service(database) as writer:
        writer.execute("LOCK TABLE memories IN SHARE MODE")
        with pytest.raises(KeyboardInterrupt):
            admin.import_jsonl(path, jobs=jobs, before_write=look)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("lore-share")]
    assert stored(admin) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_cannot_be_counted_is_stored_all_the_same_and_told(
    database: str, admin: StoreAdmin, written: Any, jobs: int, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = StoreAdmin.connect(make_conninfo(database, options="-c lock_timeout=200ms"))
    with as_service(database) as writer, caplog.at_level(logging.WARNING, "lore_retriever"):
        writer.execute("LOCK TABLE terms IN SHARE MODE")
        assert impatient.import_jsonl(written({"id": "m"}), jobs=jobs)["stored"] == 1
    assert "all is stored, and not yet counted" in caplog.text
    assert "`lore-retriever maintain` does it" in caplog.text
    assert stored(admin) == [("ana", "m", "of m")]


@pytest.mark.parametrize("jobs", [1, 4])
def test_replacing_keeps_a_memory_whose_id_a_colleague_shares(admin: StoreAdmin, written: Any, jobs: int) -> None:
    admin.import_jsonl(
        written(
            {"id": "s", "content": "ana's own"},
            {"id": "s", "owner": "ben", "visibility": "shared", "content": "ben's, shared"},
        )
    )
    now_shared = written({"id": "s", "visibility": "shared", "content": "ana's, shared"})
    assert admin.import_jsonl(now_shared, on_existing="replace", jobs=jobs)["kept"] == 1
    assert stored(admin) == [("ana", "s", "ana's own"), ("ben", "s", "ben's, shared")]
    changed = written({"id": "s", "content": "ana's own, changed"})
    assert admin.import_jsonl(changed, on_existing="replace", jobs=jobs)["stored"] == 1
    assert stored(admin)[0] == ("ana", "s", "ana's own, changed")


def test_names_that_a_forgotten_user_gave_come_along(store: MemoryStore, admin: StoreAdmin, tmp_path: Path) -> None:
    store.as_user("acme", "ben").add_alias("Postgres", "PG")
    admin.forget_user("acme", "ben")
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    admin.export_jsonl(first)
    with admin.service() as cursor:
        cursor.execute("DELETE FROM aliases")
    assert admin.import_jsonl(first)["names"] == 2
    admin.export_jsonl(second)
    assert first.read_text() == second.read_text()
    assert "Postgres" in first.read_text()


@pytest.mark.parametrize("field", ["id", "org", "owner", "content"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_half_a_character_is_refused_wherever_it_stands(admin: StoreAdmin, written: Any, field: str, jobs: int) -> None:
    with pytest.raises(InvalidInput, match="line 2"):
        admin.import_jsonl(written({"id": "m"} | {field: "x\ud800"}), jobs=jobs)


def test_an_export_keeps_the_rights_of_the_file_and_the_link_to_it(admin: StoreAdmin, tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.touch(mode=0o600)
    link.symlink_to(real)
    admin.export_jsonl(link)
    assert link.is_symlink()
    assert real.read_text().startswith('{"format"')
    assert real.stat().st_mode & 0o777 == 0o600
    admin.export_jsonl("/dev/null")


def test_an_export_that_fails_leaves_the_one_before(admin: StoreAdmin, empty_database: str, tmp_path: Path) -> None:
    path = tmp_path / "backup.jsonl"
    admin.export_jsonl(path)
    before = path.read_bytes()
    with pytest.raises(LoreError):
        StoreAdmin.connect(empty_database).export_jsonl(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["backup.jsonl"]


def test_an_export_that_was_cut_off_stores_nothing(store: MemoryStore, admin: StoreAdmin, tmp_path: Path) -> None:
    for n in range(3):
        store.as_user("acme", "ana").remember(f"tide {n}", id=f"m{n}")
    path = tmp_path / "out.jsonl"
    assert admin.export_jsonl(path) == {"memories": 3, "names": 0}
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    store.as_user("acme", "ana").forget("m0")
    with pytest.raises(InvalidInput, match="the export was cut off"):
        admin.import_jsonl(path)
    assert [row[1] for row in stored(admin)] == ["m1", "m2"]


@pytest.mark.parametrize("selection", [{"org": "acmee"}, {"org": "acme", "user": "anna"}, {"user": ""}])
def test_a_selection_of_nothing_leaves_the_export_before(
    store: MemoryStore, admin: StoreAdmin, tmp_path: Path, selection: dict[str, str]
) -> None:
    store.as_user("acme", "ana").remember("the tide is at four")
    path = tmp_path / "out.jsonl"
    admin.export_jsonl(path)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"there is nothing of .*'(acmee|anna)'|user is ''"):
        admin.export_jsonl(path, **selection)
    assert path.read_bytes() == before


def test_a_new_export_is_for_its_owner_alone(admin: StoreAdmin, tmp_path: Path) -> None:
    admin.export_jsonl(tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
