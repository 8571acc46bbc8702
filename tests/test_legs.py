"""What each leg finds, and how it ranks: identifiers, words, near misses, unsplit scripts, aliases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lore_retriever import Hit, Memories, MemoryStore, NewMemory, Recall
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder
from support import as_application, as_service, kept_database, scoped


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        yield conninfo


@pytest.fixture(scope="module")
def open_store(admin: str) -> Iterator[MemoryStore]:
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32)) as store:
        yield store


@pytest.fixture
def ana(open_store: MemoryStore, request: pytest.FixtureRequest) -> Memories:
    """Each test has an organisation of its own."""
    return open_store.as_user(request.node.name[:200], "ana")


def remember(view: Memories, texts: dict[str, str], **fields: Any) -> None:
    view.remember_many([NewMemory(content=text, id=i, **{"kind": "document"} | fields) for i, text in texts.items()])


def by_leg(recall: Recall, leg: str) -> list[str]:
    """Ids in the order of one leg."""
    ranked = {hit.legs[leg].rank: hit.id for hit in recall.hits if leg in hit.legs}  # type: ignore[index]
    return [ranked[rank] for rank in sorted(ranked)]


def first(recall: Recall) -> Hit:
    return max(recall.hits, key=lambda hit: hit.relevance)


# --- identifiers ---

NAMES = [
    *("ERR-4471", "CVE-2021-44228", "RUSTSEC-2020-0071", "GHSA-jfh8-c2jp-5v3q", "JIRA-7", "E0382"),
    *("db-01.prod.example.com", "10.20.30.40", "@octavia", "/etc/nginx/nginx.conf", "v1.22.3"),
    *("550e8400-e29b-41d4-a716-446655440000", "kube_pod_status_phase", "KubePodCrashLooping", "getUserById"),
    *("std::vector", "#90210", "0x7fffdeadbeef"),
]
SENTENCES = (
    "why did {} come back after the deploy?",
    "{} again",
    "what do we know about {}, and who fixed the gateway?",
)


@pytest.fixture(scope="module")
def haystack(open_store: MemoryStore, admin: str) -> Memories:
    """Two hundred memories; those that carry an identifier are the farthest of all from any query by cosine."""
    view = open_store.as_user("haystack", "ana")
    plain = {
        f"m{n}": f"Deploy {n} of the gateway came back after the fix, who knows about it again"
        for n in range(200 - len(NAMES))
    }
    remember(view, plain)
    remember(view, {f"carries {name}": f"Seen on Monday: {name}. The disk was replaced." for name in NAMES})
    StoreAdmin.connect(admin).maintain()
    return view


def farthest(admin: str, view: Memories, memory_id: str, query: str) -> None:
    """Put a memory's vectors opposite to the query's."""
    [vector] = HashEmbedder(32).embed_queries([query])
    with as_service(admin) as connection:
        connection.execute(
            "UPDATE vectors AS v SET embedding = %s::halfvec FROM memories AS m"
            " WHERE m.org = v.org AND m.key = v.key AND m.org = %s AND m.id = %s",
            [str([-number for number in vector]), view.scope.org, memory_id],
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_bare_identifier_is_hit_one_though_worst_of_two_hundred_by_cosine(
    haystack: Memories, admin: str, name: str
) -> None:
    for asked in (name, name.lower(), f" {name}?"):
        farthest(admin, haystack, f"carries {name}", asked)
        hit = haystack.recall(asked).hits[0]
        assert (hit.id, "vector" in hit.legs) == (f"carries {name}", False)


@pytest.mark.parametrize("form", SENTENCES)
@pytest.mark.parametrize("name", NAMES)
def test_an_identifier_inside_a_sentence_is_hit_one_by_relevance(
    haystack: Memories, admin: str, name: str, form: str
) -> None:
    asked = form.format(name)
    farthest(admin, haystack, f"carries {name}", asked)
    assert first(haystack.recall(asked)).id == f"carries {name}"


def test_an_identifier_between_characters_of_an_unsplit_script_is_found_by_either_form(ana: Memories) -> None:
    remember(
        ana,
        {"zh": "请看部署ERR-4471方案的日志", "en": "notes on ERR-9999"}
        | {f"m{n}": f"日志 {n} 出现了" for n in range(30)},
    )
    assert ana.recall("ERR-4471").hits[0].id == "zh"
    assert first(ana.recall("为什么ERR-4471又出现了")).id == "zh"
    assert first(ana.recall("为什么ERR-9999又出现了")).id == "en"


def test_a_neighbouring_identifier_is_not_taken_for_it(ana: Memories) -> None:
    remember(ana, {f"m{n}": f"ERR-{n} was seen in the gateway" for n in range(4470, 4475)})
    recall = ana.recall("ERR-4471")
    assert recall.hits[0].id == "m4471"
    assert by_leg(recall, "exact") == ["m4471"]


def test_an_identifier_that_many_memories_carry_is_an_ordinary_word(ana: Memories) -> None:
    remember(
        ana, {f"m{n}": f"host db-01 restarted, take {n}" for n in range(30)} | {"best": "db-01 failed over at noon"}
    )
    assert first(ana.recall("db-01 failed over at noon")).id == "best"
    assert first(ana.recall("db-01")).relevance < 4 / 61


@pytest.mark.parametrize(
    "memory_id", ["runbooks/disk full.md", "550e8400", 'o\'brien "x" \\ ;--', "ü" * 512, "a b c", "周报"]
)
def test_a_memory_s_own_id_finds_it(ana: Memories, memory_id: str) -> None:
    remember(ana, {f"m{n}": f"weekly notes a b c {n}" for n in range(20)} | {memory_id: "something else entirely"})
    hit = ana.recall(f" {memory_id} ").hits[0]
    assert (hit.id, hit.legs["exact"].rank) == (memory_id, 1)


# --- words ---


def test_all_words_phrases_and_exclusions(ana: Memories) -> None:
    remember(
        ana,
        {
            "phrase": "pods restart nightly in the cluster",
            "apart": "restart the pods now",
            "one": "pods of whales",
            "none": "a quiet cluster",
        },
    )
    assert set(by_leg(ana.recall("pods restart"), "exact")) == {"phrase", "apart"}
    assert by_leg(ana.recall('"pods restart"'), "exact") == ["phrase"]
    assert by_leg(ana.recall("pods restart -nightly"), "exact") == ["apart"]
    assert set(by_leg(ana.recall("pods OR quiet"), "exact")) == {"phrase", "apart", "one", "none"}


def test_a_phrase_ranks_before_scattered_words(ana: Memories) -> None:
    remember(
        ana,
        {
            "scattered": "The gateway is fine. " * 3 + "Somebody saw a failure. " * 3 + "Nightly.",
            "together": "The nightly gateway failure is known. " + "All else is fine. " * 6,
        },
    )
    assert by_leg(ana.recall("nightly gateway failure"), "exact")[0] == "together"


NATURAL = [
    "what are the gateway scheduled tasks",
    "how do I list every gateway job",
    "which tasks does the gateway run at night, please?",
    "is there anything about the gateway tasks at night?",
]


@pytest.mark.parametrize("query", NATURAL)
@pytest.mark.parametrize("copies", [1, 40])
def test_a_natural_question_is_never_an_empty_relaxed_leg(ana: Memories, admin: str, query: str, copies: int) -> None:
    remember(ana, {f"m{n}": f"gateway tasks run nightly, list {n} of jobs" for n in range(copies)})
    for _ in range(2):  # before and after the statistics know these words
        assert by_leg(ana.recall(query), "relaxed")
        StoreAdmin.connect(admin).maintain()


@pytest.mark.parametrize("query", ["/edit/8cbc0d10-edfb-11ea-81e5-155ba78758d4", "why is src/lib/read_tiles.py slow?"])
def test_of_a_path_that_nobody_wrote_so_the_parts_are_looked_up(ana: Memories, query: str) -> None:
    remember(
        ana, {"m": "kept in old/read_tiles.py, see https://boards.test/#/view/8cbc0d10-edfb-11ea-81e5-155ba78758d4"}
    )
    remember(ana, {f"n{n}": f"why is the edit of libraries slow, {n}" for n in range(5)})
    assert by_leg(ana.recall(query), "exact")[0] == "m"


def test_a_number_of_an_identifier_that_nobody_wrote_is_not_looked_up(ana: Memories) -> None:
    remember(ana, {"m": "WARN:447100 was seen"})
    assert by_leg(ana.recall("what is ERR:447100 about"), "exact") == []


@pytest.mark.parametrize("query", ["read_tiles", "read_tiles.py", "what does docs/read_tiles.py say?"])
def test_a_memory_is_found_by_the_file_name_in_its_id(ana: Memories, query: str) -> None:
    remember(
        ana, {"docs/read_tiles.py": "a text that does not say so", "other": "see read_tiles.py and docs/read_tiles.py"}
    )
    hits = ana.recall(query).hits
    assert {"docs/read_tiles.py", "other"} == {hit.id for hit in hits if "exact" in hit.legs}


def test_a_number_is_no_identifier_of_an_id(ana: Memories) -> None:
    remember(ana, {"2021": "a text about gateways", "n": "what happened then"})
    assert "2021" not in by_leg(ana.recall("what happened in 2021"), "exact")


def test_rare_words_count_more_than_common_ones(ana: Memories) -> None:
    remember(ana, {f"m{n}": f"the gateway restarts and restarts, gateway {n}" for n in range(30)})
    remember(ana, {"rare": "a walrus, once, near the gateway and a lot of other words that make it long"})
    assert by_leg(ana.recall("gateway restarts walrus"), "relaxed")[0] == "rare"


def test_the_relaxed_leg_is_bm25(ana: Memories, admin: str) -> None:
    """k1 1.2, b 0.75; a length is in characters; a stem of the first 200 occurs once more. Worked out by hand."""
    texts = {
        "a": "walrus walrus census",
        "b": "walrus herd",
        "c": "nothing to see, " * 14 + "census of penguins, census",
    }
    remember(ana, texts)
    StoreAdmin.connect(admin).maintain()
    mean = sum(map(len, texts.values())) / 3

    def term(tf: int, df: int, text: str) -> float:
        idf = math.log(1 + (3 - df + 0.5) / (df + 0.5))
        return idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text) / mean))

    expected = {
        "a": term(2 + 1, 2, texts["a"]) + term(1 + 1, 2, texts["a"]),
        "b": term(1 + 1, 2, texts["b"]),
        "c": term(2, 2, texts["c"]),
    }
    recall = ana.recall("walrus census")
    assert {hit.id: hit.legs["relaxed"].value for hit in recall.hits} == pytest.approx(expected)
    assert by_leg(recall, "relaxed") == sorted(expected, key=lambda i: -expected[i])


def test_counts_of_what_is_gone_are_gone_after_maintenance(ana: Memories, admin: str) -> None:
    remember(ana, {f"m{n}": f"walrus {n}" for n in range(30)})
    counts = "SELECT (SELECT count(*) FROM terms), (SELECT coalesce(sum(memories), 0) FROM scope_statistics)"
    for expected in (30, 0):
        StoreAdmin.connect(admin).maintain()
        with scoped(admin, ana.scope.org, "ana") as connection:
            row = connection.execute(counts).fetchone()
        assert row is not None
        assert (row[0] > 0, row[1]) == (expected > 0, expected)
        ana.forget_many([f"m{n}" for n in range(30)])


def test_a_search_sees_nothing_of_the_one_before(ana: Memories) -> None:
    remember(ana, {"apple": "apple trees in spring", "orange": "orange trees in winter"})

    def lexical(query: str) -> list[list[str]]:
        recall = ana.recall(query)
        return [by_leg(recall, "exact"), by_leg(recall, "relaxed")]

    assert lexical("apple") == [["apple"], ["apple"]]
    assert lexical("orange") == [["orange"], ["orange"]]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lexical, ["apple", "orange"] * 20))
    assert found == [[["apple"], ["apple"]], [["orange"], ["orange"]]] * 20


# --- near misses in spelling ---


def test_near_misses_in_spelling_are_found(ana: Memories, admin: str) -> None:
    remember(ana, {"host": "Zephyrquux is the build host", "d": "the deployment of the gateway", "x": "another memory"})
    for _ in range(2):  # before and after the statistics know these words
        assert by_leg(ana.recall("Zephyrqux"), "relaxed") == ["host"]
        assert by_leg(ana.recall("why is zephyrqux slow?"), "relaxed")[0] == "host"
        assert by_leg(ana.recall("deploying"), "relaxed") == ["d"]
        assert by_leg(ana.recall("deploymnet"), "relaxed") == ["d"]
        StoreAdmin.connect(admin).maintain()


def test_a_rare_word_that_is_right_is_never_replaced(ana: Memories, admin: str) -> None:
    remember(ana, {f"m{n}": f"Zephyrquux number {n}" for n in range(30)} | {"rare": "Zephyrqux, spelt so on purpose"})
    StoreAdmin.connect(admin).maintain()
    assert by_leg(ana.recall("Zephyrqux"), "relaxed") == ["rare"]
    words = [(word.stem, word.asked) for word in ana.explain("zephyrqux").queries[0].words]
    assert words == [("zephyrqux", "zephyrqux")]


def test_a_word_deep_in_a_long_text_is_found_when_misspelt(ana: Memories, admin: str) -> None:
    long = (
        "The tide tables are printed every spring. " * 60 + "Ask for thermocline readings. " + "The bay is cold. " * 150
    )
    assert len(long) > 5000
    remember(ana, {"long": long} | {f"m{n}": f"a plain memory, number {n}" for n in range(30)})
    StoreAdmin.connect(admin).maintain()
    recall = ana.recall("termocline")
    assert by_leg(recall, "relaxed") == ["long"]
    assert "thermocline" in recall.hits[0].text


def test_a_search_leaves_no_setting_behind(admin: str) -> None:
    names = (
        "pg_trgm.similarity_threshold",
        "pg_trgm.word_similarity_threshold",
        "enable_seqscan",
        "jit",
        "plan_cache_mode",
    )
    with scoped(admin, "acme", "ana") as connection:
        show = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
        connection.execute("SELECT similarity('a', 'b')")
        before = connection.execute(show.encode()).fetchone()
        connection.execute("SELECT * FROM recall(ARRAY['termocline ERR-1 部署'])")
        assert connection.execute(show.encode()).fetchone() == before


# --- scripts that write no spaces ---

UNSPLIT = {
    "zh": "本地部署方案 go service",
    "ja": "デプロイの手順を確認する",
    "ko": "서버가 느리다",
    "th": "การใช้งานระบบ",
    "en": "deployment of the gateway",
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("部署", {"zh"}),
        ("go 部署 deployment", {"zh", "en"}),
        ("デプロイ", {"ja"}),
        ("ﾃﾞﾌﾟﾛｲ", {"ja"}),
        ("手順", {"ja"}),
        ("서버", {"ko"}),
        ("ระบบ", {"th"}),
        ("本", {"zh"}),
        ("案", {"zh"}),
        ("什么是本地部署？", {"zh"}),
        ("deployment デプロイ", {"en", "ja"}),
        ("猫", set()),
    ],
)
def test_two_characters_of_an_unsplit_script_are_enough(ana: Memories, query: str, found: set[str]) -> None:
    remember(ana, UNSPLIT)
    recall = ana.recall(query)
    assert set(by_leg(recall, "exact")) | set(by_leg(recall, "relaxed")) == found
    assert not found or recall.hits[0].id in found


# --- aliases ---


def test_either_name_finds_the_other_without_the_vector_leg(ana: Memories, admin: str) -> None:
    remember(ana, {"long": "Kubernetes runs the gateway", "short": "k8s was upgraded", "no": "the mainframe"})
    ana.add_alias("Kubernetes", "k8s")
    with as_service(admin) as connection:
        connection.execute("INSERT INTO fusion_config (vector_weight) VALUES (0)")
    try:
        for query, own, other, name in (
            ("k8s", "short", "long", "Kubernetes"),
            ("kubernetes", "long", "short", "k8s"),
            ("Who upgraded K8S, and when?", "short", "long", "Kubernetes"),
        ):
            recall = ana.recall(query)
            assert [hit.id for hit in recall.hits] == [own, other]
            assert recall.hits[1].legs["alias"].matched == name
            assert by_leg(recall, "alias") == [other]
    finally:
        with as_service(admin) as connection:
            connection.execute("DELETE FROM fusion_config")


def test_an_alias_of_a_memory_finds_it_inside_a_sentence(ana: Memories) -> None:
    ana.remember("Octavia Chen leads the platform team", id="p", aliases=("Tavi", "the boss of infra"))
    remember(ana, {f"m{n}": f"a plain memory {n}" for n in range(5)})
    for query in ("tavi", "is TAVI in today?", "ask the boss of infra about it"):
        assert by_leg(ana.recall(query), "alias") == ["p"]
    ana.update("p", aliases=())
    assert by_leg(ana.recall("tavi"), "alias") == []


def test_a_name_inside_another_word_is_no_alias(ana: Memories) -> None:
    ana.remember("Artificial intelligence notes", id="p", aliases=("AI",))
    assert by_leg(ana.recall("main gateway said"), "alias") == []
    assert by_leg(ana.recall("our AI notes"), "alias") == ["p"]


def test_a_private_memory_s_alias_is_its_owner_s(open_store: MemoryStore, ana: Memories) -> None:
    ben = open_store.as_user(ana.scope.org, "ben")
    ana.remember("private", id="p", aliases=("codename",))
    ben.remember("codename is what ben calls it", id="b")
    assert by_leg(ben.recall("codename"), "alias") == []
    ana.update("p", visibility="shared")
    assert by_leg(ben.recall("codename"), "alias") == ["p"]
