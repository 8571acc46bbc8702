"""The command line, run as a person or a program would, as the application role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cli_tools import CommandLine, ana_of
from lore_retriever import Memories, Memory, Recall
from lore_retriever.cli.output import shown, snippet
from lore_retriever.cli.settings import resolved
from lore_retriever.explanation import Explanation
from lore_retriever.types import Briefing


@pytest.fixture
def lore(app_database: str, database: str) -> CommandLine:
    return ana_of(app_database, database)


def printed(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


# --- memories


def test_what_is_remembered_is_recalled_with_its_rank_in_every_leg(lore: CommandLine) -> None:
    made = lore("remember", "The gateway restarts every night at two.", "--id", "gw", "--kind", "runbook")
    assert (made.exit_code, made.stdout) == (0, "gw\n")
    found = lore("recall", "gateway restarts")
    assert found.exit_code == 0
    assert "vector" in found.stdout
    assert "gw  runbook" in found.stdout
    [line] = [line for line in found.stdout.splitlines() if "gw  runbook" in line]
    assert line.split()[-5:-1] == ["1", "1", "1", "–"]
    assert "The gateway restarts every night at two." in found.stdout


def test_json_is_the_records_of_the_package(lore: CommandLine) -> None:
    lore("remember", "alpha bravo", "--id", "m", "--metadata", '{"team": "infra"}', "--alias", "zulu")
    found = Recall.model_validate_json(lore("recall", "alpha", "--json").stdout)
    assert [hit.id for hit in found.hits] == ["m"]
    memory = Memory.model_validate_json(lore("get", "m", "--json").stdout)
    assert (memory.content, memory.metadata) == ("alpha bravo", {"team": "infra"})
    assert [Memory.model_validate(each).id for each in printed(lore("list", "--json"))] == ["m"]
    explained = Explanation.model_validate_json(lore("recall", "zulu", "--explain", "--json").stdout)
    assert [proposal.id for proposal in explained.leg("alias").proposals] == ["m"]
    assert Briefing.model_validate_json(lore("context", "alpha", "--json").stdout).items[0].id == "m"
    assert printed(lore("remember", "x", "--id", "n", "--json")) == {"id": "n"}


def test_options_count_before_and_after_the_command_and_the_later_ones_more(lore: CommandLine) -> None:
    lore("remember", "of ben", "--user", "ben")
    lore("--user", "ben", "remember", "of ben too")
    lore("--user", "ben", "remember", "of cleo", "--user", "cleo")
    assert sorted(memory["content"] for memory in printed(lore("list", "--json", "--user", "ben"))) == [
        "of ben",
        "of ben too",
    ]
    assert [memory["owner"] for memory in printed(lore("--json", "list", "--user", "cleo"))] == ["cleo"]
    assert printed(lore("list", "--json")) == []


def test_limit_kind_and_filter_narrow_a_search(lore: CommandLine) -> None:
    for number in range(4):
        lore("remember", f"alpha {number}", "--id", str(number), "--metadata", json.dumps({"n": number}))
    lore("remember", "alpha decision", "--id", "d", "--kind", "decision")

    def ids(*options: str) -> set[str]:
        return {hit["id"] for hit in printed(lore("recall", "alpha", "--json", *options))["hits"]}

    assert len(ids("--limit", "2")) == 2
    assert ids("--kind", "decision") == {"d"}
    assert ids("--filter", '{"n": {"$gte": 2}}') == {"2", "3"}
    assert ids("--kind", "decision", "--kind", "fact") == {"0", "1", "2", "3", "d"}


def test_several_queries_share_one_ranking_and_the_reader_is_told(lore: CommandLine) -> None:
    lore("remember", "alpha")
    lore("remember", "bravo")
    found = lore("recall", "alpha", "bravo")
    assert "alpha" in found.stdout
    assert "bravo" in found.stdout
    assert "2 queries in one ranking" in found.stderr


def test_a_search_that_finds_nothing_is_no_failure(lore: CommandLine) -> None:
    found = lore("recall", "nothing is here")
    assert (found.exit_code, found.stdout) == (0, "")
    assert "nothing found for user" in found.stderr  # whose scope it was, since a shell easily asks in another one


def test_a_hit_from_deep_inside_shows_the_passage_and_its_span(lore: CommandLine) -> None:
    lore("remember", "filler words go here. " * 300 + "The dongle hides behind the tide clock.", "--id", "long")
    [hit] = printed(lore("recall", "dongle tide clock", "--json"))["hits"]
    start, end = hit["span"]
    stdout = lore("recall", "dongle tide clock").stdout
    assert f"{start:,}–{end:,} of {hit['full_length']:,}" in stdout
    assert "The dongle hides behind the tide clock." in " ".join(stdout.split())


def test_explain_shows_words_near_misses_and_every_leg(lore: CommandLine) -> None:
    lore("remember", "Zephyrquux is our own queue", "--id", "queue")
    lore("maintain")
    explained = lore("recall", "Zephyrqux", "--explain").stdout
    assert "near miss of zephyrqux" in explained
    assert [leg for leg in ("vector", "exact", "relaxed", "alias") if f"\n{leg} " in explained] == [
        "vector",
        "exact",
        "relaxed",
        "alias",
    ]
    assert "FROM recall(" in explained


def test_get_prints_the_whole_memory_and_its_text_byte_for_byte(lore: CommandLine, ana: Memories) -> None:
    text = "line\r\n\ttab é \U0001f469\u200d\U0001f4bb 本地 [bold]x[/bold] :smile: trailing  "
    ana.remember(text, id="m", metadata={"n": 1})
    assert lore("get", "m", "--content").stdout_bytes == text.encode()
    whole = lore("get", "m").stdout
    assert "[bold]x[/bold] :smile:" in whole
    assert '{"n": 1}' in whole


def test_nothing_in_a_memory_steers_the_terminal(lore: CommandLine, ana: Memories) -> None:
    ana.remember("alpha \x1b]0;owned\x07 \x1b[31mred \u202egnp.exe", id="m\x1b[2J")
    outputs = [
        lore(*command).stdout
        for command in (("recall", "alpha"), ("recall", "alpha", "--explain"), ("list",), ("get", "m\x1b[2J"))
    ]
    outputs.append(lore("context", "alpha").stdout)
    for output in outputs:
        assert "alpha" in output or "m\\x1b" in output
        assert not {"\x1b", "\x07", "\u202e"} & set(output)


def test_a_memory_goes_away_comes_back_and_is_forgotten(lore: CommandLine) -> None:
    lore("remember", "alpha", "--id", "old")
    lore("remember", "alpha anew", "--id", "new")
    assert lore("invalidate", "old", "--superseded-by", "new").exit_code == 0
    assert [hit["id"] for hit in printed(lore("recall", "alpha", "--json"))["hits"]] == ["new"]
    assert printed(lore("get", "old", "--json"))["superseded_by"] == "new"
    assert lore("restore", "old").exit_code == 0
    assert len(printed(lore("recall", "alpha", "--json"))["hits"]) == 2
    gone = lore("forget", "old", "unknown")
    assert (gone.exit_code, gone.stdout) == (1, "forgotten old\n")
    assert "'unknown'" in gone.stderr
    assert lore("get", "old").exit_code == 1


def test_list_pages_by_the_last_id(lore: CommandLine) -> None:
    for number in range(5):
        lore("remember", f"text {number}", "--id", f"m{number}")
    first = lore("list", "--limit", "3")
    assert "--after m2" in first.stderr
    rest = printed(lore("list", "--after", "m2", "--json"))
    assert [memory["id"] for memory in rest] == ["m1", "m0"]


def test_a_briefing_keeps_to_its_budget(lore: CommandLine) -> None:
    lore("remember", "alpha " * 200, "--id", "m", "--pinned")
    made = lore("context", "alpha", "--max-tokens", "60")
    assert made.exit_code == 0
    assert "alpha" in made.stdout
    assert "of 60 tokens" in made.stderr


def test_votes_are_counted_and_change_the_multiplier(lore: CommandLine) -> None:
    lore("remember", "alpha", "--id", "m")
    assert "1 useful, 0 misleading, counts × 1.104" in lore("feedback", "m", "--useful").stdout
    assert "0 useful, 1 misleading, counts × 0.827" in lore("feedback", "m", "--misleading").stdout
    assert lore("feedback", "m").exit_code == 2


def test_aliases_are_added_imported_listed_and_removed(lore: CommandLine, tmp_path: Path) -> None:
    lore("remember", "Kubernetes upgrade window", "--id", "m")
    assert lore("alias", "add", "Kubernetes", "k8s").exit_code == 0
    (tmp_path / "names.csv").write_text("harbour, port\n")
    assert lore("alias", "import", str(tmp_path / "names.csv")).exit_code == 0
    groups = printed(lore("alias", "list", "--json"))["groups"]
    assert {frozenset(names) for names in groups} == {frozenset({"Kubernetes", "k8s"}), frozenset({"harbour", "port"})}
    assert printed(lore("recall", "k8s", "--json"))["hits"][0]["legs"]["alias"]["rank"] == 1
    assert lore("alias", "remove", "port").exit_code == 0
    assert lore("alias", "remove", "port").exit_code == 1


def test_text_comes_from_standard_input(lore: CommandLine) -> None:
    assert lore("remember", "-", "--id", "m", input="piped in\n").exit_code == 0
    assert lore("get", "m", "--content").stdout == "piped in\n"


def test_standard_input_that_is_no_text_is_refused(lore: CommandLine) -> None:
    result = lore("remember", "-", input=b"caf\xe9")
    assert result.exit_code == 1
    assert "not UTF-8: byte 0xe9 at position 3" in result.stderr


def test_output_survives_a_closed_pipe_and_an_encoding_without_the_characters(lore: CommandLine) -> None:
    for number in range(30):
        lore("remember", f"税関 {number}", "--id", f"m{number}")
    narrow = CommandLine({**lore.environment, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"})
    stdout, stderr = narrow.start("list").communicate(timeout=60)
    assert "\\u7a0e\\u95a2 29" in stdout
    assert stderr == "there may be more: --after m10\n"
    process = lore.start("list", "--limit", "30", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.wait(60)
    process.stderr.close()


# --- refusals and exit codes


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("recall", "x", "--limit", "0"), "limit is 0"),
        (("recall", " "), "the query is ' ': it holds nothing to look for"),
        (("recall", "x", "--filter", "{"), "--filter is not JSON"),
        (("recall", "x", "--filter", "[" * 100_000), "--filter is JSON that cannot be read"),
        (("recall", "x", "--filter", '{"team": "a", "team": "b"}'), "--filter is JSON that names 'team' twice"),
        (("recall", "x", "--filter", "[1]"), "give a JSON object"),
        (("recall", "x", "--filter", '{"a": {"$near": 1}}'), "unknown operator '$near'"),
        (("recall", *"123456789"), "9 queries were given"),
        (("remember", "  "), "holds nothing"),
        (("remember", "a\udc80b"), "lone surrogate"),
        (("remember", "x", "--metadata", '{"lore_kind": 1}'), "reserved"),
        (("remember", "x", "--visibility", "public"), "visibility is 'public'"),
        (("get", "unknown"), "no memory 'unknown' is visible here"),
        (("get", "x" * 600), "the id has 600 characters"),
        (("list", "--limit", "1000000"), "limit is 1000000"),
        (("invalidate", "unknown"), "no memory 'unknown' of your own"),
        (("restore", "unknown"), "no memory 'unknown' of your own"),
        (("feedback", "unknown", "--useful"), "'unknown'"),
        (("context", "x", "--max-tokens", "-1"), "-1"),
        (("alias", "add", "one", "one"), "needs two different ones"),
        (("recall", "x", "--org", " "), "org is ' '"),
        (("recall", "x", "--user", ""), "--user is empty"),
        (("recall", "x", "--database", ""), "--database is empty"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_refused_input_is_one_line_and_exit_code_1(lore: CommandLine, arguments: tuple[str, ...], told: str) -> None:
    result = lore(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("recall",), ("recal", "x"), ("recall", "x", "--colour"), ("recall", "x", "--limit", "many"), ("invalidate",)],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(lore: CommandLine, arguments: tuple[str, ...]) -> None:
    assert lore(*arguments).exit_code == 2


@pytest.mark.parametrize("command", [("recall", "x"), ("list",), ("status",), ("doctor",), ("maintain",), ("embed",)])
def test_a_database_that_cannot_be_reached_is_exit_code_3_at_once(command: tuple[str, ...]) -> None:
    nowhere = ana_of("host=127.0.0.1 port=1 dbname=x user=u password=secret")
    result = nowhere(*command)
    assert result.exit_code == 3
    assert "cannot be reached" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "secret" not in result.stderr


def test_a_connection_string_that_is_none_is_refused_without_repeating_it() -> None:
    result = ana_of("not-a-conninfo hunter2")("recall", "x")
    assert result.exit_code == 1
    assert "no connection string" in result.stderr
    assert "hunter2" not in result.stderr


def test_a_database_without_a_store_or_behind_is_exit_code_3(
    empty_database: str, lore: CommandLine, admin_connection: psycopg.Connection[Any]
) -> None:
    for command in (("recall", "x"), ("status",), ("remember", "x")):
        result = ana_of(empty_database)(*command)
        assert result.exit_code == 3
        assert "lore-retriever migrate" in result.stderr
    admin_connection.execute("DELETE FROM migrations WHERE number = (SELECT max(number) FROM migrations)")
    result = lore("recall", "x")
    assert result.exit_code == 3
    assert "is behind" in result.stderr


def test_debug_shows_where_an_error_came_from(lore: CommandLine) -> None:
    with pytest.raises(KeyError, match="unknown"):
        lore("get", "unknown", "--debug")
    with pytest.raises(KeyError, match="unknown"):
        lore("--debug", "get", "unknown")


def test_an_application_is_told_what_needs_an_administrator(app_database: str) -> None:
    result = ana_of(app_database)("maintain")
    assert result.exit_code == 1
    assert "--admin-database" in result.stderr


def test_database_options_of_eval_belong_behind_it(lore: CommandLine) -> None:
    result = lore("--database", "dbname=x", "eval", "history")
    assert result.exit_code == 2
    assert "after `eval" in result.stderr
    assert "Measure every leg" in lore("eval", "run", "--help").stdout


def test_a_schema_of_the_built_in_server_that_is_a_typo_makes_no_store(tmp_path: Path) -> None:
    lore = CommandLine({"LORE_FOLDER": str(tmp_path / "pg"), "LORE_MODEL": "hash"})
    assert lore("remember", "alpha", "--id", "m").exit_code == 0
    for words in (
        ["recall", "alpha"],
        ["list"],
        ["remember", "bravo"],
        ["config", "show"],
        ["status"],
        ["maintain"],
        ["embed"],
        ["space", "list"],
        ["identity", "show"],
    ):
        refused = lore(*words, "--schema", "lroe")
        assert refused.exit_code == 3, words
        assert "migrate" in refused.stderr
    assert "'lroe' holds no store; those of the built-in Postgres: 'lore'" in " ".join(
        lore("recall", "alpha", "--schema", "lroe").stderr.split()
    )
    assert lore("doctor", "--schema", "lroe").exit_code != 0
    assert lore("migrate", "--schema", "lroe").exit_code == 0
    assert lore("recall", "alpha", "--schema", "lroe").exit_code == 0


# --- settings


def test_settings_come_from_options_then_the_environment_then_defaults() -> None:
    environment = {"LORE_DATABASE": "env", "LORE_ORG": "env", "LORE_USER": "", "LORE_JSON": "1", "LORE_FOLDER": "/f"}
    settings = resolved({"org": "after", "database": None}, {"org": "before"}, environment=environment, login="login")
    assert (settings.database, settings.org, settings.user, settings.login) == ("env", "after", None, "login")
    assert (settings.schema, settings.as_json, settings.folder) == (None, False, Path("/f"))
    assert "secret" not in repr(resolved({"token": "secret"}, environment={}, login="login"))


# --- text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[0mb", "a\\x1b[0mb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("é本\U0001f600", "é本\U0001f600"),
    ],
)
def test_shown_makes_what_steers_a_terminal_visible(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize("chars", [1, 2, 10, 40, 100, 1000])
@pytest.mark.parametrize("query", ["needle", "", "本地", "needle (with [odd] *marks*"])
def test_a_snippet_is_never_longer_than_asked_and_holds_the_words_of_the_query(chars: int, query: str) -> None:
    text = "hay " * 100 + "the needle lies here " + "本地部署方案 " * 20 + "hay " * 100
    cut = snippet(text, [query], chars)
    assert len(cut) <= max(chars, 2)
    if chars >= 40 and query:
        assert ("本地" if query == "本地" else "needle") in cut


def test_a_short_text_is_its_own_snippet() -> None:
    assert snippet("one\n\ntwo", ["two"], 20) == "one two"


# --- keeping a store


@pytest.fixture
def keeper(empty_database: str) -> Iterator[CommandLine]:
    yield ana_of(empty_database, empty_database)


def test_migrate_brings_an_empty_database_up_to_date_once(keeper: CommandLine) -> None:
    first = keeper("migrate", "--model", "hash")
    assert first.exit_code == 0
    assert "applied 0001_roles" in first.stdout
    again = printed(keeper("migrate", "--json"))
    assert again == {"applied": [], "embedding_space": "lore-retriever/hash@1 (32 dimensions)"}
    assert keeper("remember", "alpha").exit_code == 0
    assert keeper("recall", "alpha").exit_code == 0


def test_migrate_without_a_model_says_what_is_missing(keeper: CommandLine) -> None:
    result = keeper("migrate")
    assert result.exit_code == 0
    assert "--model" in result.stderr
    later = keeper("recall", "alpha")
    assert later.exit_code == 1
    assert "--model" in later.stderr


def test_migrate_with_another_model_is_refused(lore: CommandLine) -> None:
    result = lore("migrate", "--model", "offline")
    assert result.exit_code == 1
    assert "lore-retriever/hash" in result.stderr
    assert "multilingual-e5-small" in result.stderr


def test_a_store_lives_in_a_schema_of_any_name(keeper: CommandLine) -> None:
    name = 'odd "schema" name'
    assert keeper("migrate", "--model", "hash", "--schema", name).exit_code == 0
    keeper("remember", "alpha", "--id", "m", "--schema", name)
    assert printed(keeper("recall", "alpha", "--schema", name, "--json"))["hits"][0]["id"] == "m"
    assert keeper("recall", "alpha", "--schema", "x" * 70).exit_code == 1


def test_the_printed_sql_makes_the_same_store(keeper: CommandLine, empty_database: str) -> None:
    script = CommandLine({})("migrate", "--print-sql", "--no-roles")
    assert "CREATE ROLE" not in script.stdout
    script = CommandLine({})("migrate", "--print-sql")
    assert "CREATE ROLE" in script.stdout
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(script.stdout.encode())
    status = printed(keeper("status", "--json"))
    assert status["state"] == "current"
    assert "no embedding space yet" in status["embedding_space"]


def test_status_says_where_things_stand(lore: CommandLine) -> None:
    lore("remember", "alpha")
    facts = printed(lore("status", "--json"))
    assert (facts["state"], facts["memories"], facts["waiting"]) == ("current", 1, 0)
    assert facts["embedding_space"] == "lore-retriever/hash@1 (32 dimensions)"
    assert "ana of acme" in lore("status").stdout


def test_maintain_counts_what_it_did(lore: CommandLine, ana: Memories) -> None:
    ana.remember("gone", expires_at="2020-01-01T00:00:00Z")
    assert printed(lore("maintain", "--json"))["expired"] == 1


def test_config_show_tells_what_differs_from_the_defaults(
    lore: CommandLine, admin_connection: psycopg.Connection[Any]
) -> None:
    assert "the shipped defaults" in lore("config", "show").stdout
    admin_connection.execute("INSERT INTO fusion_config (rrf_k) VALUES (42)")
    shown_config = lore("config", "show").stdout
    assert "accepted settings" in shown_config
    assert "never fades" in shown_config
    values = printed(lore("config", "show", "--json"))
    assert values["fusion"]["rrf_k"] == 42
    assert values["store"]["text_config"] == "english"


def test_embed_makes_the_vectors_that_wait(lore: CommandLine, app_database: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("alpha\n\n" + "words " * 600)
    assert lore("add", str(tmp_path), "--no-embed").exit_code == 0
    assert "vector" not in printed(lore("recall", "alpha", "--json"))["hits"][0]["legs"]
    alone = printed(ana_of(app_database)("embed", "--json"))
    assert alone["waiting"] == 0
    assert alone["embedded"] >= 3
    assert "vector" in printed(lore("recall", "alpha", "--json"))["hits"][0]["legs"]
    lore("remember", "of ben", "--user", "ben")
    assert printed(lore("embed", "--json")) == {"embedded": 0, "waiting": 0, "given_up": 0, "error": None}


def test_an_administrator_embeds_for_everybody_and_tries_again_what_was_given_up(
    lore: CommandLine, app_database: str, admin_connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("alpha")
    for user in ("ana", "ben"):
        lore("add", str(tmp_path), "--no-embed", "--user", user)
    admin_connection.execute("UPDATE pending SET attempts = 8, error = 'out of memory' WHERE owner = 'ben'")
    first = lore("embed")
    assert first.stdout == "1 windows embedded.\n"
    assert "1 of them given up (out of memory)" in first.stderr
    assert lore("embed", "--retry").stdout == "1 windows embedded.\n"
    refused = ana_of(app_database)("embed", "--retry")
    assert refused.exit_code == 1
    assert "--admin-database" in refused.stderr


def test_a_role_without_membership_is_told_what_to_grant(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS lore_test_stranger")
        connection.execute("CREATE ROLE lore_test_stranger LOGIN PASSWORD 'x'")
    result = ana_of(make_conninfo(database, user="lore_test_stranger", password="x"))("recall", "x")
    assert result.exit_code == 1
    assert "member of lore_user" in result.stderr
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP ROLE lore_test_stranger")


def test_another_model_is_built_beside_switched_to_and_back_and_dropped(lore: CommandLine) -> None:
    lore("remember", "alpha bravo", "--id", "m")
    nothing_built = lore("space", "switch")
    assert nothing_built.exit_code == 1
    built = printed(lore("embed", "--model", "offline", "--json"))
    assert (built["state"], built["vectors"], built["waiting"]) == ("building", 1, 0)

    def states() -> list[tuple[str, int]]:
        return [(space["state"], space["dimensions"]) for space in printed(lore("space", "list", "--json"))["spaces"]]

    assert states() == [("active", 32), ("building", 384)]
    assert lore("space", "switch").stdout.startswith("active: intfloat/multilingual-e5-small@")
    assert states() == [("active", 384), ("kept", 32)]
    assert "vector" in printed(lore("recall", "alpha", "--json"))["hits"][0]["legs"]
    assert lore("space", "undo").exit_code == 0
    assert states()[0] == ("active", 32)
    assert lore("space", "drop", "lore-retriever/hash").exit_code == 1
    assert lore("space", "drop", "intfloat/multilingual-e5-small").exit_code == 0
    assert states() == [("active", 32)]


def test_the_text_index_is_rebuilt_under_another_configuration(lore: CommandLine) -> None:
    lore("remember", "Die Häuser am Hafen", "--id", "m")
    done = printed(lore("maintain", "--rebuild-text", "german", "--json"))
    assert done["indexed"] == 1
    assert printed(lore("config", "show", "--json"))["store"]["text_config"] == "german"
    assert "relaxed" in printed(lore("recall", "Haus", "--json"))["hits"][0]["legs"]
    refused = lore("maintain", "--rebuild-text", "klingon")
    assert refused.exit_code == 1
    assert "klingon" in refused.stderr
