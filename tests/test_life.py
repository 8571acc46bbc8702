"""What becomes of memories over time: versions, history, moving between stores, leaving without a trace."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg import sql

from lore_retriever import InvalidInput, MemoryStore, NewMemory, NotFound
from lore_retriever.admin import StoreAdmin
from lore_retriever.exported import FORMAT
from lore_retriever.language import CallableTranslator
from lore_retriever.testing import HashEmbedder


@pytest.fixture
def ana(either: Any) -> Any:
    return either.as_user("acme", "ana")


@pytest.fixture
def ben(either: Any) -> Any:
    return either.as_user("acme", "ben")


class TestHistory:
    def test_it_tells_what_replaced_what(self, ana: Any) -> None:
        ana.remember("port 80", id="m")
        ana.update("m", content="port 8080")
        ana.remember("port 8443", id="m")
        ana.remember("the port is 8443, by decree", id="next")
        ana.invalidate("m", superseded_by="next")
        ana.restore("m")
        told = [(each.version, each.event, each.content, each.superseded_by) for each in ana.history("m")]
        assert told == [
            (1, "updated", "port 80", None),
            (2, "updated", "port 8080", None),
            (4, "invalidated", None, "next"),
            (5, "restored", None, None),
        ]
        times = [each.changed_at for each in ana.history("m")]
        assert times == sorted(times)

    def test_a_memory_that_never_changed_has_none(self, ana: Any) -> None:
        ana.remember("port 80", id="m")
        ana.remember("port 80", id="m", pinned=True)
        ana.update("m", metadata={"a": 1})
        assert ana.history("m") == []

    def test_what_a_memory_said_while_it_was_private_stays_with_its_owner(
        self, ana: Any, ben: Any, scope_connection: Callable[[str, str], Any]
    ) -> None:
        ana.remember("the password is swordfish", id="m")
        ana.update("m", content="ask ana for the password", visibility="shared")
        assert ben.get("m").content == "ask ana for the password"
        with pytest.raises(NotFound, match="of your own"):
            ben.history("m")
        with scope_connection("acme", "ben") as connection:
            assert connection.execute("SELECT content FROM history").fetchall() == []
        assert [each.content for each in ana.history("m")] == ["the password is swordfish"]

    def test_an_outdated_version_is_refused_and_changes_nothing(self, ana: Any) -> None:
        ana.remember("port 80", id="m")
        ana.update("m", version=1, content="port 81")
        with pytest.raises(InvalidInput, match="is at version 2, not 1"):
            ana.update("m", version=1, content="port 82")
        assert (ana.get("m").content, ana.get("m").version) == ("port 81", 2)
        assert len(ana.history("m")) == 1


def whole(more: str) -> str:
    """A line of an export that holds all it needs, and more."""
    needed = '"id": "x", "org": "o", "owner": "u", "created_at": "2025-01-01T00:00:00Z", "content": "a"'
    return f'{{"memory": {{{needed}, {more}}}}}'


def written(n: int, **more: Any) -> str:
    """The line of a memory of an export."""
    place = {"org": f"org{n % 3}", "owner": "ana", "created_at": "2025-01-01T00:00:00Z"}
    return json.dumps({"memory": place | {"id": f"m{n}", "content": f"the tide of m{n}"} | more})


class TestMoving:
    """Out of one store and into another."""

    @pytest.fixture
    def filled(self, database: str, store: MemoryStore) -> StoreAdmin:
        ana, ben = store.as_user("acme", "ana"), store.as_user("acme", "ben")
        then = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        ana.remember_many(
            [
                NewMemory(
                    content="Der Gateway startet um zwei neu.\u2028\U0001f600",
                    id="a/1",
                    kind="gotcha",
                    visibility="shared",
                    metadata={"team": "infra", "n": 1.5, "tags": ["x", None]},
                    pinned=True,
                    aliases=("GW", "front door"),
                    created_at=then,
                    expires_at=then + timedelta(days=9999),
                    agent="bot",
                    session="s1",
                    source="wiki",
                    trust="reviewed",
                    language="de",
                ),
                NewMemory(content="private " * 400, id="long", created_at=then),
            ]
        )
        ana.remember("old port 80", id="old")
        ana.update("old", content="port 8080")
        ana.invalidate("old", superseded_by="a/1")
        ben.remember("ben's own", id="a/1", visibility="private")
        ben.feedback("a/1", useful=True, recall_id="r1")
        store.as_user("acme", "cleo").feedback("a/1", useful=True, recall_id="r2")
        store.as_user("acme", "cleo").feedback("a/1", useful=False)
        ana.add_alias("Kubernetes", "k8s")
        store.as_user("globex", "eve").remember("tripwire: globex only", id="g")
        return StoreAdmin.connect(database)

    @pytest.fixture
    def other_database(self, create_database: Callable[..., str], template: str, server: str) -> Iterator[str]:
        conninfo = create_database(template)
        yield conninfo
        with psycopg.connect(server, autocommit=True) as connection:
            name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(str(name))))

    @pytest.fixture
    def other(self, other_database: str) -> StoreAdmin:
        return StoreAdmin.connect(other_database)

    @staticmethod
    def rows(path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]

    def test_an_export_comes_back_the_same(self, filled: StoreAdmin, other: StoreAdmin, tmp_path: Path) -> None:
        assert filled.export_jsonl(tmp_path / "one.jsonl") == {"memories": 5, "names": 2}
        assert other.import_jsonl(tmp_path / "one.jsonl") == {"stored": 5, "kept": 0, "refused": 0, "names": 2}
        other.export_jsonl(tmp_path / "two.jsonl")
        assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()

    def test_an_import_again_keeps_what_is_there(self, filled: StoreAdmin, tmp_path: Path) -> None:
        filled.export_jsonl(tmp_path / "one.jsonl")
        assert filled.import_jsonl(tmp_path / "one.jsonl") == {"stored": 0, "kept": 5, "refused": 0, "names": 0}
        assert filled.import_jsonl(tmp_path / "one.jsonl", on_existing="replace")["stored"] == 5
        filled.export_jsonl(tmp_path / "two.jsonl")
        assert self.rows(tmp_path / "one.jsonl") == self.rows(tmp_path / "two.jsonl")

    def test_what_was_imported_is_found_and_counts_as_before(
        self, filled: StoreAdmin, other: StoreAdmin, other_database: str, tmp_path: Path
    ) -> None:
        filled.export_jsonl(tmp_path / "one.jsonl")
        other.import_jsonl(tmp_path / "one.jsonl")
        with MemoryStore.connect(other_database, embedder=HashEmbedder(32)) as store:
            ana = store.as_user("acme", "ana")
            hit = ana.recall("Gateway").hits[0]
            assert (hit.id, "vector" in hit.legs) == ("a/1", False)
            assert other.embed() > 4
            hit = ana.recall("Gateway").hits[0]
            assert (hit.id, "vector" in hit.legs) == ("a/1", True)
            assert hit.reinforcement == pytest.approx(1 + 0.15 * math.log(2) - 0.25 * math.log(2), abs=1e-9)
            assert ana.get("long").content == "private " * 400
            assert "old" not in {each.id for each in ana.recall("old port").hits}
            assert ana.history("old")[0].content == "old port 80"
            assert store.as_user("acme", "ben").get("a/1").content == "ben's own"

    def test_a_translated_memory_comes_back_with_its_original_and_is_not_translated_again(
        self, database: str, app_database: str, other: StoreAdmin, other_database: str, tmp_path: Path
    ) -> None:
        german, english = "Das Tor öffnet um zwei.", "The gate opens at two."
        asked: list[str] = []

        def translate(text: str, source: str) -> str:
            asked.append(text)
            if "Ebbe" in text:
                raise TimeoutError("the translator did not answer")
            return english

        facts = sql.SQL("SELECT id, content, content_original, language, translation FROM lore.memories ORDER BY id")
        with MemoryStore.connect(
            app_database, embedder=HashEmbedder(32), canonicalizer=CallableTranslator(translate)
        ) as store:
            ana = store.as_user("acme", "ana")
            ana.remember(german, id="gate", language="de")
            ana.remember("Die Ebbe kommt um drei.", id="tide", language="de")  # its translation still waits
        exporting = StoreAdmin.connect(database)
        exporting.export_jsonl(tmp_path / "one.jsonl")
        del asked[:]
        assert other.import_jsonl(tmp_path / "one.jsonl")["stored"] == 2
        other.embed()
        other.export_jsonl(tmp_path / "two.jsonl")
        assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
        with psycopg.connect(database) as before, psycopg.connect(other_database) as after:
            assert after.execute(facts).fetchall() == before.execute(facts).fetchall()
        with MemoryStore.connect(
            other_database, embedder=HashEmbedder(32), canonicalizer=CallableTranslator(translate)
        ) as store:
            memory = store.as_user("acme", "ana").get("gate")
            assert (memory.content, memory.content_original, memory.language) == (english, german, "de")
            assert store.as_user("acme", "ana").recall("gate opens").hits[0].id == "gate"
        assert german not in asked

    @pytest.mark.parametrize("on_existing", ["keep", "replace"])
    def test_an_import_leaves_the_counts_that_maintain_would_make(
        self, filled: StoreAdmin, on_existing: Literal["keep", "replace"], tmp_path: Path
    ) -> None:
        def counted(admin: StoreAdmin, what: str) -> list[dict[str, Any]]:
            with admin.service() as cursor:
                return cursor.execute(what).fetchall()  # type: ignore[call-overload, no-any-return]

        sizes = "SELECT org, owner, memories, characters, stems FROM scope_statistics WHERE memories > 0 ORDER BY 1, 2"
        stems = "SELECT org, owner, stem, df FROM terms ORDER BY 1, 2, 3"
        times = "SELECT org, owner, refreshed_at FROM scope_statistics WHERE org <> 'acme' ORDER BY 1, 2"
        filled.maintain()
        before = counted(filled, times)
        filled.export_jsonl(tmp_path / "one.jsonl", org="acme")
        more = (tmp_path / "one.jsonl").read_text(encoding="utf-8").replace("Gateway", "Doorway")
        if on_existing == "keep":
            more = more.replace('"id": "', '"id": "again/')
        (tmp_path / "two.jsonl").write_text(more, encoding="utf-8")
        assert filled.import_jsonl(tmp_path / "two.jsonl", on_existing=on_existing)["stored"] > 0
        made = counted(filled, sizes), counted(filled, stems)
        assert {"doorway"} <= {row["stem"] for row in made[1]}
        assert before and counted(filled, times) == before  # nobody else's are counted anew
        filled.maintain()
        assert made == (counted(filled, sizes), counted(filled, stems))

    def test_an_organisation_or_a_user_can_be_exported_alone(self, filled: StoreAdmin, tmp_path: Path) -> None:
        filled.export_jsonl(tmp_path / "acme.jsonl", org="acme")
        assert "tripwire" not in (tmp_path / "acme.jsonl").read_text()
        filled.export_jsonl(tmp_path / "ben.jsonl", org="acme", user="ben")
        assert [row["memory"]["content"] for row in self.rows(tmp_path / "ben.jsonl")[1:-1]] == ["ben's own"]

    def test_a_hook_may_change_or_refuse_what_comes_in(
        self, filled: StoreAdmin, other: StoreAdmin, tmp_path: Path
    ) -> None:
        def guard(memory: NewMemory) -> NewMemory | None:
            return None if "private" in memory.content else memory.model_copy(update={"trust": "imported"})

        filled.export_jsonl(tmp_path / "one.jsonl")
        assert other.import_jsonl(tmp_path / "one.jsonl", before_write=guard)["refused"] == 1
        other.export_jsonl(tmp_path / "two.jsonl")
        memories = [row["memory"] for row in self.rows(tmp_path / "two.jsonl") if "memory" in row]
        assert {memory["trust"] for memory in memories} == {"imported"}
        assert "long" not in {memory["id"] for memory in memories}

    def test_a_hook_sees_originals_and_earlier_texts_too(self, other: StoreAdmin, tmp_path: Path) -> None:
        place = {"org": "acme", "owner": "ana", "created_at": "2025-01-01T00:00:00Z"}
        change = {"version": 1, "event": "updated", "changed_at": "2025-01-02T00:00:00Z"}
        rows = [
            {**place, "id": "m", "content": "the gate", "content_original": "das Tor, hunter2", "translation": "done"},
            {**place, "id": "n", "content": "the tide", "version": 3}
            | {"history": [{**change, "content": "hunter2"}, {**change, "version": 2, "content": "forbidden"}]},
            {**place, "id": "o", "content": "clean", "content_original": "forbidden", "translation": "done"},
        ]
        lines = [json.dumps({"format": "lore-retriever export 1"}), *(json.dumps({"memory": row}) for row in rows)]
        (tmp_path / "in.jsonl").write_text("\n".join(lines))

        def guard(memory: NewMemory) -> NewMemory | None:
            if "forbidden" in memory.content:
                return None
            return memory.model_copy(update={"content": memory.content.replace("hunter2", "[removed]")})

        counts = other.import_jsonl(tmp_path / "in.jsonl", before_write=guard)
        assert (counts["stored"], counts["refused"]) == (2, 1)
        other.export_jsonl(tmp_path / "out.jsonl")
        text = (tmp_path / "out.jsonl").read_text()
        assert "hunter2" not in text
        assert "forbidden" not in text
        stored = {row["memory"]["id"]: row["memory"] for row in self.rows(tmp_path / "out.jsonl") if "memory" in row}
        assert stored["m"]["content_original"] == "das Tor, [removed]"
        assert [change["content"] for change in stored["n"]["history"]] == ["[removed]"]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "line 2 of .* is not JSON"),
            ('{"memory": {"id": "x"}}', r"line 2 of .*: content cannot be read: field required"),
            ('{"other": 1}', "line 2 of .* is .* an export holds"),
            ('{"format": "lore-retriever export 9"}', "this version reads 'lore-retriever export 1'"),
            (
                '{"memory": {"id": "x", "org": "o", "owner": "u", "created_at": "2025-01-01T00:00:00Z", "content": "a\\u0000"}}',
                "the content of line 2 of .* holds a NUL",
            ),
            (
                '{"memory": {"id": "x", "org": "", "owner": "u", "created_at": "2025-01-01T00:00:00Z", "content": "a"}}',
                "org of line 2 of .* is ''",
            ),
            (
                whole('"version": 0'),
                r"line 2 of .*: version cannot be read: input should be greater than or equal to 1",
            ),
            (
                whole('"version": 2147483647'),
                r"line 2 of .*: version cannot be read: input should be less than or equal to 1000000000",
            ),
            (
                whole('"history": [{"version": -1, "event": "updated", "changed_at": "2025-01-01T00:00:00Z"}]'),
                r"line 2 of .*: history.0.version cannot be read",
            ),
        ],
    )
    def test_a_line_that_cannot_be_stored_is_named_and_nothing_is(
        self, filled: StoreAdmin, other: StoreAdmin, tmp_path: Path, line: str, message: str
    ) -> None:
        filled.export_jsonl(tmp_path / "one.jsonl", org="globex")
        first, *rest = (tmp_path / "one.jsonl").read_text().split("\n")
        (tmp_path / "bad.jsonl").write_text("\n".join([first, line, *rest]))
        with pytest.raises(InvalidInput, match=message):
            other.import_jsonl(tmp_path / "bad.jsonl")
        with other.service() as cursor:
            assert cursor.execute("SELECT count(*) AS n FROM memories").fetchall() == [{"n": 0}]

    def test_several_jobs_store_what_one_does(self, other: StoreAdmin, tmp_path: Path) -> None:
        path = tmp_path / "many.jsonl"
        path.write_text("\n".join([json.dumps({"format": FORMAT}), *(written(n) for n in range(2500))]))
        lines: list[int] = []
        counts = other.import_jsonl(path, jobs=4, progress=lines.append)
        assert counts == {"stored": 2500, "kept": 0, "refused": 0, "names": 0}
        assert lines == sorted(lines) and len(lines) > 4
        assert other.import_jsonl(path, jobs=3)["kept"] == 2500
        with other.service() as cursor:
            row = cursor.execute(
                "SELECT count(*) AS memories, count(*) FILTER (WHERE content = 'the tide of ' || id) AS right,"
                " (SELECT sum(memories) FROM scope_statistics) AS counted FROM memories"
            ).fetchone()
        assert row == {"memories": 2500, "right": 2500, "counted": 2500}

    @pytest.mark.parametrize("on_existing", ["keep", "replace"])
    @pytest.mark.parametrize("jobs", [1, 3])
    def test_the_last_line_of_an_id_wins_however_far_apart(
        self, other: StoreAdmin, tmp_path: Path, jobs: int, on_existing: Literal["keep", "replace"]
    ) -> None:
        path = tmp_path / "twice.jsonl"
        lines = [written(n % 10, content=f"take {n // 10} of m{n % 10}") for n in range(1000)]
        path.write_text("\n".join([json.dumps({"format": FORMAT}), *lines]))
        assert other.import_jsonl(path, jobs=jobs, on_existing=on_existing)["stored"] == 10
        with other.service() as cursor:
            rows = cursor.execute("SELECT content FROM memories ORDER BY id").fetchall()
        assert [row["content"] for row in rows] == [f"take 99 of m{n}" for n in range(10)]

    @pytest.mark.parametrize("fault", ["line", "hook", "database"])
    def test_several_jobs_store_all_or_nothing(self, other: StoreAdmin, tmp_path: Path, fault: str) -> None:
        lines = [json.dumps({"format": FORMAT}), *(written(n) for n in range(3000))]
        if fault == "line":
            lines[2800] = "{"
        if fault == "database":  # which alone knows what no date of a store may be
            lines[2800] = written(2800, created_at="9999-12-31T12:00:00Z")
        path = tmp_path / "bad.jsonl"
        path.write_text("\n".join(lines))

        def look(memory: NewMemory) -> NewMemory:
            if fault == "hook" and memory.id == "m2800":
                raise ZeroDivisionError("a hook that fails")
            return memory

        expected = {
            "line": "line 2801 of .* is not JSON",
            "hook": "a hook that fails",
            "database": "readable_dates|created_at",
        }
        with pytest.raises(Exception, match=expected[fault]):
            other.import_jsonl(path, jobs=4, before_write=look)
        with other.service() as cursor:
            assert cursor.execute("SELECT count(*) AS n FROM memories").fetchall() == [{"n": 0}]
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("lore-share")]

    @pytest.mark.parametrize("jobs", [0, -1, 33, True, 2.0, "2"])
    def test_a_number_of_jobs_out_of_its_bounds_is_refused(self, other: StoreAdmin, tmp_path: Path, jobs: Any) -> None:
        (tmp_path / "in.jsonl").write_text(json.dumps({"format": FORMAT}))
        with pytest.raises(InvalidInput, match=r"jobs is .*; give a number of connections from 1 to 32"):
            other.import_jsonl(tmp_path / "in.jsonl", jobs=jobs)

    @pytest.mark.parametrize(
        ("skipped", "message"),
        [(slice(0, 0), "bad.jsonl holds nothing"), (slice(1, None), "line 2 of .* comes before")],
    )
    def test_what_is_no_export_from_its_first_line_on_is_refused(
        self, filled: StoreAdmin, other: StoreAdmin, tmp_path: Path, skipped: slice, message: str
    ) -> None:
        filled.export_jsonl(tmp_path / "one.jsonl")
        lines = (tmp_path / "one.jsonl").read_text().split("\n")
        (tmp_path / "bad.jsonl").write_text("\n".join(["", *lines[skipped]]))
        with pytest.raises(InvalidInput, match=message):
            other.import_jsonl(tmp_path / "bad.jsonl")


class TestLeaving:
    def test_a_user_leaves_no_trace_and_the_traces_are_counted(
        self, either: Any, ana: Any, ben: Any, database: str, admin_connection: psycopg.Connection[Any]
    ) -> None:
        ana.remember("zanzibar " * 300, id="ana-secret-1", aliases=["anas-alias"])
        ana.remember("zanzibar shared", id="ana-secret-2", visibility="shared", source="ana")
        ana.update("ana-secret-2", content="zanzibar shared again")
        ana.add_alias("Kubernetes", "k8s")
        mine = ben.remember("ben's own remark", visibility="shared", id="b1")
        ben.remember("older", id="b2")
        ben.invalidate("b2", superseded_by="ana-secret-2")
        ben.feedback("ana-secret-2", useful=True)
        ana.feedback(mine, useful=True)
        either.as_user("acme", "cleo").feedback(mine, useful=True)
        either.as_user("globex", "ana").remember("another ana", id="other")
        admin = StoreAdmin.connect(database)
        admin.maintain()

        counted = admin.forget_user("acme", "ana")

        assert counted.pop("statistics") > 0
        assert counted.pop("windows") == counted.pop("vectors") >= 3
        assert counted == {
            "memories": 2,
            "history": 1,
            "aliases": 1,
            "votes received": 1,
            "votes given": 1,
            "names given to the organisation": 2,
            "mentions as successor": 2,
        }
        assert self.found(admin_connection, "acme", ("zanzibar", "ana-secret", "anas-alias")) == []
        assert self.found(admin_connection, "acme", ("ana",), whole=True) == []
        assert either.as_user("globex", "ana").get("other").content == "another ana"
        assert ben.recall("remark").hits[0].reinforcement == pytest.approx(1 + 0.15 * math.log(2), abs=1e-9)
        assert ben.aliases() != []

    @staticmethod
    def found(
        connection: psycopg.Connection[Any], org: str, words: tuple[str, ...], *, whole: bool = False
    ) -> list[tuple[str, str]]:
        """Every table and column of an organisation that holds one of the words."""
        columns = connection.execute(
            "SELECT c.table_name, c.column_name FROM information_schema.columns AS c"
            " JOIN information_schema.tables AS t USING (table_schema, table_name)"
            " WHERE c.table_schema = 'lore' AND t.table_type = 'BASE TABLE' AND c.data_type NOT IN ('bytea')"
            " AND EXISTS (SELECT FROM information_schema.columns AS o WHERE o.table_schema = 'lore'"
            "             AND o.table_name = c.table_name AND o.column_name = 'org')"
        ).fetchall()
        hits = []
        for table, column in columns:
            test = f'"{column}"::text = ANY (%s)' if whole else f'"{column}"::text ILIKE ANY (%s)'
            sought = list(words) if whole else [f"%{word}%" for word in words]
            query = f'SELECT count(*) FROM "{table}" WHERE org = %s AND {test}'  # noqa: S608
            (row,) = connection.execute(query, [org, sought]).fetchall()
            hits += [(table, column)] if row[0] else []
        return hits

    def test_an_unknown_user_leaves_nothing_behind_but_zeros(self, database: str) -> None:
        assert set(StoreAdmin.connect(database).forget_user("acme", "nobody").values()) == {0}

    def test_an_application_cannot_make_a_colleague_leave(
        self, ana: Any, ben: Any, scope_connection: Callable[[str, str], Any]
    ) -> None:
        ana.remember("ana's", id="a", visibility="shared")
        with scope_connection("acme", "ben") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM forget_user('acme', 'ana')")
        assert ben.get("a").content == "ana's"

    def test_a_forgotten_memory_is_gone_from_every_table(
        self, ana: Any, admin_connection: psycopg.Connection[Any]
    ) -> None:
        ana.remember("xanadu " * 300, id="m", aliases=["stately dome"])
        ana.feedback("m", useful=True)
        ana.update("m", content="xanadu, reworded")
        ana.forget("m")
        # Statistics are counts of words, brought up to date by the next maintenance.
        assert {table for table, _ in self.found(admin_connection, "acme", ("xanadu", "stately"))} <= {"terms"}
