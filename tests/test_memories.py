"""What a caller can do with memories; every test runs over the synchronous and the asynchronous store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lore_retriever import InvalidInput, NewMemory, NotFound


@pytest.fixture
def ana(either: Any) -> Any:
    return either.as_user("acme", "ana")


@pytest.fixture
def ben(either: Any) -> Any:
    return either.as_user("acme", "ben")


def ids(recall: Any) -> list[str]:
    return [hit.id for hit in recall.hits]


def test_a_memory_is_found_by_its_words_and_comes_whole(ana: Any) -> None:
    made = ana.remember("The gateway restarts every night at two.", metadata={"team": "infra"})
    hit = ana.recall("gateway restarts").hits[0]
    assert (hit.id, hit.text, hit.truncated, hit.span) == (
        made,
        "The gateway restarts every night at two.",
        False,
        (0, 40),
    )
    assert hit.metadata == {"team": "infra"}
    assert {"vector", "exact", "relaxed"} <= set(hit.legs)


def test_get_returns_the_text_byte_for_byte(ana: Any) -> None:
    text = "line\r\n\ttab \u00e9 e\u0301 \U0001f469\u200d\U0001f4bb 本地 trailing  "
    assert ana.get(ana.remember(text)).content == text


def test_remember_with_an_own_id_replaces_text_metadata_and_windows(ana: Any) -> None:
    ana.remember("alpha bravo " * 300, id="m", metadata={"v": 1})
    ana.remember("zulu", id="m", metadata={"w": 2})
    memory = ana.get("m")
    assert (memory.content, memory.metadata, memory.version) == ("zulu", {"w": 2}, 2)
    assert "exact" not in {leg for hit in ana.recall("alpha bravo").hits for leg in hit.legs}


def test_the_last_of_several_with_one_id_wins(ana: Any) -> None:
    made = ana.remember_many([NewMemory(content="first", id="m"), NewMemory(content="second", id="m")])
    assert made == ["m"]
    assert ana.get("m").content == "second"


def test_a_batch_with_one_bad_item_stores_nothing(ana: Any) -> None:
    with pytest.raises(InvalidInput, match=r"item 1 .*NUL.*position 1"):
        ana.remember_many([NewMemory(content="good", id="g"), NewMemory(content="a\x00b")])
    assert ana.list() == []


def test_skip_leaves_out_the_bad_item_and_reports_it(ana: Any) -> None:
    made = ana.remember_many([NewMemory(content="good", id="g"), NewMemory(content="a\x00b")], on_error="skip")
    assert made == ["g"]
    assert [(number, "NUL" in str(error)) for number, error in made.refused] == [(1, True)]


def test_a_generator_is_a_batch(ana: Any) -> None:
    assert len(ana.remember_many(NewMemory(content=f"memory {n}") for n in range(5))) == 5


def test_update_changes_what_is_given_and_nothing_else(ana: Any) -> None:
    ana.remember("old wording", id="m", metadata={"keep": True}, kind="decision")
    ana.update("m", content="fresh penguins")
    memory = ana.get("m")
    assert (memory.content, memory.metadata, memory.kind) == ("fresh penguins", {"keep": True}, "decision")
    assert ids(ana.recall("penguins")) == ["m"]
    assert "exact" not in ana.recall("wording").hits[0].legs


def test_update_at_a_stale_version_is_refused(ana: Any) -> None:
    ana.remember("text", id="m")
    ana.update("m", pinned=True, version=1)
    with pytest.raises(InvalidInput, match="version 2, not 1"):
        ana.update("m", pinned=False, version=1)


def test_update_of_an_unknown_field_names_it(ana: Any) -> None:
    ana.remember("text", id="m")
    with pytest.raises(InvalidInput, match="colour"):
        ana.update("m", colour="red")


def test_an_invalidated_memory_is_in_no_search_or_list_but_its_owner_can_read_and_restore_it(
    ana: Any,
) -> None:
    ana.remember("the old host is db-01", id="old")
    ana.remember("the new host is db-02", id="new")
    ana.invalidate("old", superseded_by="new")
    assert ids(ana.recall("host")) == ["new"]
    assert [memory.id for memory in ana.list()] == ["new"]
    assert ana.get("old").superseded_by == "new"
    ana.restore("old")
    assert set(ids(ana.recall("host"))) == {"old", "new"}


def test_an_expired_memory_is_hidden(ana: Any) -> None:
    ana.remember("fleeting notice", id="gone", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    ana.remember("lasting notice", id="stays", expires_at=datetime.now(UTC) + timedelta(days=1))
    assert ids(ana.recall("notice")) == ["stays"]
    assert [memory.id for memory in ana.list()] == ["stays"]


def test_a_forgotten_memory_is_gone_and_its_id_can_be_used_again(ana: Any) -> None:
    ana.remember("secret plan", id="m")
    ana.forget("m")
    with pytest.raises(NotFound):
        ana.get("m")
    assert ana.recall("secret plan").hits == ()
    ana.remember("harmless", id="m")
    assert ana.get("m").version == 1


def test_a_shared_memory_is_read_by_a_colleague_and_changed_by_none(ana: Any, ben: Any) -> None:
    ana.remember("shared runbook", id="s", visibility="shared")
    ana.remember("private note", id="p")
    assert ids(ben.recall("runbook note")) == ["s"]
    assert ben.get("s").owner == "ana"
    for attempt in (
        lambda: ben.update("s", content="x"),
        lambda: ben.invalidate("s"),
        lambda: ben.restore("s"),
        lambda: ben.forget("s"),
        lambda: ben.get("p"),
        lambda: ben.forget("p"),
    ):
        with pytest.raises(NotFound):
            attempt()


def test_another_s_private_id_looks_like_an_unknown_one(ana: Any, ben: Any) -> None:
    ana.remember("private", id="same")
    with pytest.raises(NotFound) as private:
        ben.get("same")
    with pytest.raises(NotFound) as unknown:
        ben.get("other")
    assert str(private.value).replace("same", "X") == str(unknown.value).replace("other", "X")
    assert ben.remember("ben's own", id="same") == "same"
    assert (ana.get("same").content, ben.get("same").content) == ("private", "ben's own")


def test_two_shared_memories_of_one_organisation_cannot_have_one_id(ana: Any, ben: Any) -> None:
    ana.remember("ana's", id="s", visibility="shared")
    with pytest.raises(InvalidInput, match="'s' already names a shared memory"):
        ben.remember("ben's", id="s", visibility="shared")


def test_making_a_memory_private_hides_it_from_every_leg_of_a_colleague(ana: Any, ben: Any) -> None:
    ana.remember("plan zebra", id="z", visibility="shared", aliases=("stripes",))
    assert ids(ben.recall("zebra")) == ["z"]
    ana.update("z", visibility="private")
    assert ids(ben.recall("zebra")) == ids(ben.recall("stripes")) == []


def test_list_pages_by_key_without_gaps_or_repeats(ana: Any) -> None:
    made = ana.remember_many([NewMemory(content=f"memory {n}", id=f"m{n}") for n in range(7)])
    seen: list[str] = []
    page = ana.list(limit=3)
    while page:
        seen += [memory.id for memory in page]
        page = ana.list(limit=3, after=seen[-1])
    assert sorted(seen) == sorted(made)


def test_list_cuts_long_texts_from_the_start(ana: Any) -> None:
    ana.remember("x" * 1201, id="long")
    ana.remember("y" * 1200, id="short")
    shown = {memory.id: (len(memory.content), memory.truncated, memory.full_length) for memory in ana.list()}
    assert shown == {"long": (1200, True, 1201), "short": (1200, False, 1200)}


def test_a_long_memory_comes_as_the_window_that_matched(ana: Any) -> None:
    body = "\n\n".join(
        f"Paragraph {n} speaks of ordinary matters at some length, and of nothing else." for n in range(60)
    )
    ana.remember(body + "\n\nThe spare key hangs behind the walrus painting.", id="long")
    hit = ana.recall("walrus painting").hits[0]
    assert hit.truncated
    assert hit.full_length == len(body) + 49
    assert "walrus" in hit.text
    assert hit.text == ana.get("long").content[slice(*hit.span)]
    assert len(hit.text) <= 1200


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.0, True, "3"])
def test_a_limit_that_is_no_number_of_hits_is_refused(ana: Any, limit: Any) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        ana.recall("x", limit=limit)


@pytest.mark.parametrize("query", ["", "   ", "\n", "the of and", "!!!", "🙂", "\x00", "\ud800"])
def test_a_query_without_words_finds_without_error(ana: Any, query: str) -> None:
    ana.remember("some memory")
    recall = ana.recall(query)
    assert len(recall.hits) <= 1


def test_several_queries_make_one_ranking_that_says_which_found_a_hit(ana: Any) -> None:
    ana.remember("penguins live in the south", id="penguin")
    ana.remember("walruses live in the north", id="walrus")
    recall = ana.recall(["penguins", "walruses"])
    assert {hit.id: hit.query for hit in recall.hits} == {"penguin": 0, "walrus": 1}


def test_as_of_sees_what_was_known_then(ana: Any) -> None:
    then = datetime(2026, 1, 1, tzinfo=UTC)
    ana.remember("early fact", id="early", created_at=then - timedelta(days=1))
    ana.remember("late fact", id="late", created_at=then + timedelta(days=1))
    assert ids(ana.recall("fact", as_of=then)) == ["early"]
    ana.invalidate("early")
    assert ids(ana.recall("fact", as_of=then)) == ["early"]
    assert ids(ana.recall("fact")) == ["late"]


def test_kinds_confine_a_search(ana: Any) -> None:
    ana.remember("the gateway choice", id="d", kind="decision")
    ana.remember("the gateway story", id="e", kind="episode")
    assert ids(ana.recall("gateway", kinds=["decision"])) == ["d"]
    with pytest.raises(InvalidInput, match="kinds"):
        ana.recall("gateway", kinds="decision")
