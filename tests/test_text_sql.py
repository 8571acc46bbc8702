"""What the text functions make of a text: words, identifiers, pairs of characters, tsvectors of any size."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import GeneratedAlways, UndefinedObject

from lore_retriever import MemoryStore, NewMemory
from lore_retriever.testing import HashEmbedder
from support import SEARCH_PATH, as_application, kept_database, scoped

Sql = Callable[..., Any]


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        yield conninfo


@pytest.fixture(scope="module")
def value(admin: str) -> Iterator[Sql]:
    """`value("SELECT f(%s)", x)`: the first column of the first row, as the user role."""
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(
            "SELECT set_config('search_path', %s, false), set_config('role', 'lore_user', false)", [SEARCH_PATH]
        )

        def one(statement: str, *params: Any) -> Any:
            row = connection.execute(statement.encode(), params).fetchone()
            assert row is not None
            return row[0]

        yield one


IDENTIFIERS = [
    ("ERR-4471 came back", {"err-4471", "4471"}, {"err-4471"}),
    ("see CVE-2021-44228.", {"cve-2021-44228", "2021", "44228"}, {"cve-2021-44228"}),
    ("GHSA-jfh8-c2jp-5v3q", {"ghsa-jfh8-c2jp-5v3q", "jfh8", "c2jp", "5v3q"}, {"ghsa-jfh8-c2jp-5v3q"}),
    ("(RUSTSEC-2020-0071)", {"rustsec-2020-0071", "2020", "0071"}, {"rustsec-2020-0071"}),
    ("on db-01.prod.example.com!", {"db-01.prod.example.com", "db-01"}, {"db-01.prod.example.com"}),
    ("ask @ana or ana@example.com", {"@ana", "ana@example.com", "example.com"}, {"@ana", "ana@example.com"}),
    ("in /etc/nginx/nginx.conf", {"/etc/nginx/nginx.conf", "nginx.conf"}, {"/etc/nginx/nginx.conf"}),
    ("since v1.2.3, and", {"v1.2.3"}, {"v1.2.3"}),
    (
        "550e8400-e29b-41d4-a716-446655440000",
        {"550e8400-e29b-41d4-a716-446655440000", "550e8400", "e29b", "41d4", "a716", "446655440000"},
        {"550e8400-e29b-41d4-a716-446655440000"},
    ),
    ("call read_file and std::sort", {"read_file", "std::sort"}, {"read_file", "std::sort"}),
    ("KubePodCrashLooping getUserById", {"kubepodcrashlooping", "getuserbyid"}, {"kubepodcrashlooping", "getuserbyid"}),
    ("issue #1234 at 10.0.0.1", {"#1234", "1234", "10.0.0.1"}, {"#1234", "10.0.0.1"}),
    ("ＥＲＲ－４４７１ in full width", {"err-4471", "4471"}, {"err-4471"}),
    # prose is no identifier
    ("a well-known fix, and/or a hack", set(), set()),
    ("the 1st, 2nd and 3rd, ten times", set(), set()),
    ("e.g. this, i.e. that, U.S.", set(), set()),
    ("What's up?", set(), set()),
    ("", set(), set()),
]


@pytest.mark.parametrize(("text", "stored", "asked"), IDENTIFIERS)
def test_identifiers_of_a_text_and_of_a_query(value: Sql, text: str, stored: set[str], asked: set[str]) -> None:
    assert set(value("SELECT identifiers_of(%s)", text)) == stored
    assert set(value("SELECT query_identifiers(%s)", text)) == asked


def test_a_query_of_one_token_is_an_identifier_whatever_it_looks_like(value: Sql) -> None:
    assert value("SELECT query_identifiers('gateway')") == ["gateway"]
    assert value("SELECT query_identifiers('gateway tasks')") == []


def test_identifiers_are_found_between_characters_of_an_unsplit_script(value: Sql) -> None:
    assert "err-4471" in value("SELECT identifiers_of('请看部署ERR-4471方案的日志')")
    assert value("SELECT query_identifiers('为什么ERR-4471又出现了')") == ["err-4471"]


def test_a_text_keeps_at_most_two_thousand_identifiers_and_a_query_sixteen(value: Sql) -> None:
    many = " ".join(f"ERR-{n:05}" for n in range(5000))
    assert len(value("SELECT identifiers_of(%s)", many)) == 2000
    assert len(value("SELECT query_identifiers(%s)", many)) == 16


@pytest.mark.parametrize(
    ("text", "stored", "asked"),
    [
        ("本地部署", "本地 地部 部署 署", "本地 地部 部署"),
        ("部署", "部署 署", "部署"),
        ("本", "本", "本"),
        ("go部署 now", "go 部署 署 now", "go 部署 now"),
        ("デプロイ", "デプ プロ ロイ イ", "デプ プロ ロイ"),
        ("서버 점검", "서버 버 점검 검", "서버 점검"),
        ("ไทย", "ไท ทย ย", "ไท ทย"),
        ("plain words", "plain words", "plain words"),
    ],
)
def test_scripts_that_write_no_spaces_are_cut_into_pairs(value: Sql, text: str, stored: str, asked: str) -> None:
    assert value("SELECT unsplit_bigrams(%s, true)", text).split() == stored.split()
    assert value("SELECT unsplit_bigrams(%s, false)", text).split() == asked.split()


def test_half_width_and_composed_forms_are_one(value: Sql) -> None:
    same = "SELECT text_vector('english', %s, true) = text_vector('english', %s, true)"
    assert value(same, "ﾃﾞﾌﾟﾛｲ", "デプロイ")
    assert value(same, "cafe\u0301 ﬁle", "caf\u00e9 file")


@pytest.mark.parametrize(
    ("query", "parsed"),
    [
        ("ERR-4471", "'err' & '4471'"),
        ('"pods restart" -nightly', "'pod' <-> 'restart' & !'night'"),
        ("what are the gateway tasks", "'gateway' & 'task'"),
        ("cat OR dog", "'cat' | 'dog'"),
        ("kube-state-metrics", "'kube' & 'state' & 'metric'"),
        ("部署", "'部署'"),
        ("本", "'本':*"),
        ("go 部署 deployment", "'go' & '部署' & 'deploy'"),
        ("What's your password policies?", "'password' & 'polici'"),
        # metacharacters of tsquery, LIKE, jsonpath, regular expressions and SQL are punctuation
        ("a & b | !c:* (d) <-> 'e'", "'b' & 'c' & 'd' & 'e'"),
        ("' OR 1=1 --", "'1' & '1'"),
        *(
            (text, "")
            for text in ('"', "\\", ":*", "(((", "-", "'", "%", "_", "$.a[*] ? (@ > 1)" * 0, "the of", "", "\n")
        ),
    ],
)
def test_a_query_becomes_these_words_and_never_an_error(value: Sql, query: str, parsed: str) -> None:
    assert value("SELECT exact_query('english', %s)::text", query) == parsed


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("Café  Müller!", "cafe muller"),
        ("C++", "c++"),
        ("Straße", "strasse"),
        ("ＫＵＢＥ", "kube"),
        ("東京-支社", "東京 支社"),
        ("…", ""),
    ],
)
def test_names_are_compared_without_case_accents_and_punctuation(value: Sql, name: str, folded: str) -> None:
    assert value("SELECT folded_name(%s)", name) == folded


@pytest.mark.parametrize(
    ("token", "is_name"), [("SSPDown", True), ("CPUThrottling", True), ("PDFs", False), ("URLs", False)]
)
def test_capitals_before_a_word_make_a_name_and_a_plural_does_not(value: Sql, token: str, is_name: bool) -> None:
    assert (token.lower() in value("SELECT identifiers_of(%s)", f"see {token} here")) is is_name
    assert (token.lower() in value("SELECT query_identifiers(%s)", f"see {token} here")) is is_name


def test_capitals_before_a_word_are_a_part_of_a_compound(value: Sql) -> None:
    assert value("SELECT compound_forms('CPUThrottlingHigh CephOSDDown PDFs')") == "CPU Throttling High Ceph OSD Down"


def test_a_term_frequency_is_read_from_ts_rank_exactly(value: Sql) -> None:
    """1 to 255: more places of one stem a tsvector does not hold. The formula is that of relaxed_leg."""
    wrong = value(
        """
        SELECT array_agg(tf) FROM (
            SELECT tf, cardinality((SELECT u.positions FROM unnest(v) AS u WHERE u.lexeme = 'w')) AS counted,
                   greatest(1, round(1 / (1.6449340668482264 * (1 - 2 * ts_rank('{0.5,0.5,0.5,1}', v, 'w'::tsquery)::double precision)) - 0.5)) AS read,
                   greatest(1, round(1 / (1.6449340668482264 * (1 - ts_rank('{0.5,0.5,0.5,1}', setweight(v, 'A'), 'w'::tsquery)::double precision)) - 0.5)) AS headed,
                   ts_rank('{0.5,0.5,0.5,1}', v, 'w'::tsquery) < 0.55 AND ts_rank('{0.5,0.5,0.5,1}', setweight(v, 'A'), 'w'::tsquery) > 0.55 AS apart
            FROM (SELECT tf, to_tsvector('simple', repeat('w filler ', tf)) AS v FROM generate_series(1, 255) AS tf) AS made) AS both_ways
        WHERE counted <> tf OR read <> tf OR headed <> tf OR NOT apart
        """
    )
    assert wrong is None


def test_the_formula_of_relaxed_leg_is_the_one_tested_here(value: Sql) -> None:
    body = " ".join(value("SELECT pg_get_functiondef('relaxed_leg'::regproc)").split())
    assert "> 0.55 THEN 1 + greatest(1, round(1 / (1.6449340668482264 * (1 - r.rank)) - 0.5))" in body
    assert "ELSE greatest(1, round(1 / (1.6449340668482264 * (1 - 2 * r.rank)) - 0.5)) END AS tf" in body
    assert "ts_rank('{0.5,0.5,0.5,1}', d.tsv, s.wanted)" in body


def test_the_text_column_is_generated_and_nobody_writes_it(admin: str) -> None:
    generated = (
        "SELECT attname FROM pg_attribute WHERE attrelid = 'memories'::regclass AND attgenerated = 's' ORDER BY 1"
    )
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", [SEARCH_PATH])
        assert [name for (name,) in connection.execute(generated).fetchall()] == [
            "content_hash",
            "full_length",
            "identifiers",
            "partly_indexed",
            "tsv",
        ]
        for statement in (
            "UPDATE memories SET tsv = ''",
            "INSERT INTO memories (org, id, owner, content, tsv) VALUES ('o', 'i', 'u', 'c', '')",
        ):
            with pytest.raises(GeneratedAlways):
                connection.execute(statement.encode())
    with scoped(admin, "acme", "ana") as connection, pytest.raises(GeneratedAlways):
        connection.execute("UPDATE memories SET tsv = ''")


def test_what_a_generated_column_calls_is_immutable_and_pins_its_path(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT proname, provolatile, proconfig::text FROM pg_proc WHERE pronamespace = 'lore'::regnamespace"
            " AND proname IN ('memory_vector', 'indexed_chars', 'identifiers_of', 'memory_identifiers', 'text_vector', 'search_text', 'text_hash')"
        ).fetchall()
    assert {name: volatility for name, volatility, _ in rows} == dict.fromkeys(
        (
            "memory_vector",
            "indexed_chars",
            "identifiers_of",
            "memory_identifiers",
            "text_vector",
            "search_text",
            "text_hash",
        ),
        "i",
    )
    # text_hash calls only what stands in pg_catalog.
    assert [name for name, _, config in rows if "search_path" not in (config or "")] == ["text_hash"]


@pytest.mark.parametrize(
    ("config", "stems"),
    [
        ("english", {"die", "bäckereien", "läuft", "naïv", "run"}),
        ("simple", {"die", "bäckereien", "läuft", "naïve", "running"}),
        ("german", {"backerei", "lauft", "naïv", "running"}),
        ("german+unaccent", {"backerei", "lauft", "naiv", "running"}),
        ("english+unaccent", {"die", "backereien", "lauft", "naiv", "run"}),
    ],
)
def test_any_text_search_configuration_serves(value: Sql, config: str, stems: set[str]) -> None:
    text = "Die Bäckereien läuft naïve running"
    assert set(value("SELECT tsvector_to_array(text_vector(%s, %s, true))", config, text)) == stems
    assert value("SELECT text_vector(%s, %s, true) @@ exact_query(%s, %s)", config, text, config, text)


def test_an_unknown_text_search_configuration_is_an_error(value: Sql) -> None:
    with pytest.raises(UndefinedObject, match="klingon"):
        value("SELECT text_vector('klingon', 'x', true)")


def unique_tokens(chars: int) -> str:
    source = random.Random(38)
    return " ".join(f"{source.getrandbits(64):016x}" for _ in range(chars // 17 + 1))[:chars]


def test_two_megabytes_of_unique_tokens_are_stored_and_marked_as_indexed_in_part(admin: str) -> None:
    content = unique_tokens(2_000_000)
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32)) as store:
        ana = store.as_user("acme", "ana")
        both = [NewMemory(content=content, id="huge"), NewMemory(content="short and whole", id="small")]
        ana.remember_many(both, embed=False)
        assert ana.get("huge").content == content
        assert [hit.id for hit in ana.recall(content[:16]).hits] == ["huge"]
    with scoped(admin, "acme", "ana") as connection:
        marks = dict(connection.execute("SELECT id, partly_indexed FROM memories").fetchall())
        stems = connection.execute("SELECT length(tsv) FROM memories WHERE id = 'huge'").fetchone()
    assert marks == {"huge": True, "small": False}
    assert stems is not None
    assert stems[0] > 20_000


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("".join(chr(0x4E00 + n * 7919 % 20000) for n in range(100_000)), id="unsplit script"),
        pytest.param("a-" * 100_000, id="one endless compound"),
        pytest.param("A" * 300_000, id="one endless word"),
        pytest.param("aB" * 100_000, id="one endless CamelCase"),
        pytest.param("@" * 200_000, id="punctuation"),
        pytest.param("\U0001f469\u200d\U0001f4bb" * 50_000, id="emoji"),
        pytest.param("e\u0301" * 100_000, id="combining marks"),
    ],
)
def test_a_text_of_any_shape_becomes_a_tsvector(value: Sql, content: str) -> None:
    assert value("SELECT pg_column_size(memory_vector('english', %s)) BETWEEN 1 AND 1048576", content)
    assert 0 < value("SELECT indexed_chars('english', %s)", content) <= len(content)
