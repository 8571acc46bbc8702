"""The demo's corpus keeps what its questions and the documentation promise."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from lore_retriever.demo import (
    DEMO_AS_OF,
    DemoMemory,
    DemoQuestion,
    demo_memories,
    demo_memories_by_scope,
    demo_questions,
)
from lore_retriever.limits import MAX_WINDOW_CHARS
from lore_retriever.types import KNOWN_KINDS, LEGS, Scope

MEMORIES = demo_memories()
QUESTIONS = demo_questions()
ANA = Scope(org="acme", user="ana")
LONG_CHARS = 5_000

# Characters that only texts of these languages have, so that a wrong label is noticed.
SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",
    "zh": r"[\u4e00-\u9fff]",
    "ko": r"[\uac00-\ud7af]",
    "th": r"[\u0e00-\u0e7f]",
    "de": r"[äöüß]",
    "fr": r"[éàœ]",
    "es": r"[áéíóúñ]",
}


def visible_to(scope: Scope) -> dict[str, DemoMemory]:
    """Memories that `scope` may read, by id; an own one wins over a shared one of the same id."""
    seen = [m for m in MEMORIES if m.scope.org == scope.org]
    shared = {m.memory.id or "": m for m in seen if m.memory.visibility == "shared"}
    own = {m.memory.id or "": m for m in seen if m.scope == scope}
    return shared | own


def word_starts(text: str) -> set[str]:
    """The first five letters of each word: a stand-in for stems that needs no stemmer."""
    return {word[:5] for word in re.findall(r"[^\W\d_]+", text.lower())}


def question(query: str, scope: Scope = ANA) -> DemoQuestion:
    """The one question of that text asked by `scope`."""
    (found,) = [q for q in QUESTIONS if q.query == query and q.scope == scope]
    return found


def test_there_are_about_sixty_memories_in_two_organisations_of_two_users() -> None:
    assert 55 <= len(MEMORIES) <= 75
    scopes = Counter((m.scope.org, m.scope.user) for m in MEMORIES)
    assert set(scopes) == {("acme", "ana"), ("acme", "ben"), ("globex", "gil"), ("globex", "gwen")}
    assert scopes["globex", "gil"] + scopes["globex", "gwen"] >= 8


def test_grouping_by_scope_keeps_every_memory_in_order() -> None:
    grouped = demo_memories_by_scope()
    assert set(grouped) == {m.scope for m in MEMORIES}
    for scope, memories in grouped.items():
        assert memories == [m.memory for m in MEMORIES if m.scope == scope]


def test_every_known_kind_and_both_visibilities_occur() -> None:
    acme = [m.memory for m in MEMORIES if m.scope.org == "acme"]
    assert {m.kind for m in acme} == set(KNOWN_KINDS)
    for user in ("ana", "ben"):
        mine = [m.memory.visibility for m in MEMORIES if m.scope == Scope(org="acme", user=user)]
        assert set(mine) == {"private", "shared"}


def test_ids_are_unique_per_owner_and_among_shared_memories() -> None:
    assert all(m.memory.id for m in MEMORIES)
    per_owner = Counter((m.scope, m.memory.id) for m in MEMORIES)
    shared = Counter((m.scope.org, m.memory.id) for m in MEMORIES if m.memory.visibility == "shared")
    assert max(per_owner.values()) == 1
    assert max(shared.values()) == 1


def test_no_two_memories_have_the_same_text() -> None:
    assert len({m.memory.content for m in MEMORIES}) == len(MEMORIES)
    assert all(m.memory.content == m.memory.content.strip() != "" for m in MEMORIES)


def test_six_memories_are_long_and_none_repeats_a_paragraph() -> None:
    long = [m.memory for m in MEMORIES if len(m.memory.content) > LONG_CHARS]
    assert sum(m.scope.org == "acme" for m in MEMORIES if m.memory in long) >= 5
    for memory in long:
        paragraphs = [p for p in memory.content.split("\n\n") if not p.startswith("#")]
        assert len(set(paragraphs)) == len(paragraphs) >= 10, memory.id


@pytest.mark.parametrize(
    ("memory_id", "detail"),
    [
        ("runbook-database-failover", "behind the tide clock"),
        ("runbook-quayside-certificates", "turnstile 2 first"),
        ("postmortem-2026-03-tariffs", "budgerigar"),
        ("postmortem-2025-08-double-invoices", "lighthouse emoji"),
        ("ref-onboarding", "Captain Pemberton-Smythe"),
    ],
)
def test_each_long_memory_keeps_one_detail_near_its_end(memory_id: str, detail: str) -> None:
    content = visible_to(ANA)[memory_id].memory.content
    assert content.count(detail) == 1
    assert content.index(detail) > len(content) - MAX_WINDOW_CHARS
    others = [m for m in visible_to(ANA).values() if m.memory.id != memory_id]
    assert not any(detail in m.memory.content for m in others)


@pytest.mark.parametrize("language", SCRIPTS)
def test_each_promised_language_occurs_at_acme_and_is_labelled(language: str) -> None:
    texts = [m.memory.content for m in MEMORIES if m.scope.org == "acme" and m.memory.language == language]
    assert texts
    assert all(re.search(SCRIPTS[language], text) for text in texts)


def test_chinese_text_holds_no_kana_and_only_labelled_texts_use_other_scripts() -> None:
    kana, unsplit = (
        re.compile(SCRIPTS["ja"]),
        re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]"),
    )
    for m in MEMORIES:
        if m.memory.language == "zh":
            assert not kana.search(m.memory.content)
        if unsplit.search(m.memory.content):
            assert m.memory.language in {"ja", "zh", "ko", "th"}, m.memory.id


def test_dates_carry_a_zone_span_about_two_years_and_lie_before_the_corpus_s_today() -> None:
    dates = [m.memory.created_at for m in MEMORIES]
    aware = [d for d in dates if d is not None and d.tzinfo is not None]
    assert len(aware) == len(MEMORIES)
    assert max(aware) <= DEMO_AS_OF
    assert 650 <= (max(aware) - min(aware)).days <= 760
    assert len({d.utcoffset() for d in aware}) >= 3


def test_three_memories_are_pinned_and_one_expires() -> None:
    assert sum(m.memory.pinned for m in MEMORIES) == 3
    expiring = [m.memory for m in MEMORIES if m.memory.expires_at is not None]
    assert len(expiring) == 1
    assert expiring[0].expires_at is not None and expiring[0].expires_at > DEMO_AS_OF


def test_metadata_holds_every_type_of_json_value() -> None:
    values = [v for m in MEMORIES for v in m.memory.metadata.values()]
    assert {bool, int, float, str, list, dict} <= {type(v) for v in values}
    assert not any(key.startswith("lore_") for m in MEMORIES for key in m.memory.metadata)


def test_one_external_memory_tries_to_give_orders_and_to_close_its_fence() -> None:
    (attack,) = [m.memory for m in MEMORIES if "Ignore all previous instructions" in m.memory.content]
    assert attack.trust == "external"
    assert "</memory>" in attack.content


@pytest.mark.parametrize(
    "code", ["ERR-4471", "ERR-4417", "ERR-4472", "HARB-2291", "HARB-2292", "HARB-2219", "CVE-2099-4471"]
)
def test_each_code_stands_in_exactly_one_memory_that_ana_sees(code: str) -> None:
    whole = re.compile(rf"(?<![\w-]){re.escape(code)}(?![\w-])")
    assert sum(bool(whole.search(m.memory.content)) for m in visible_to(ANA).values()) == 1


def test_globex_repeats_acme_s_ids_and_codes_with_other_facts() -> None:
    acme = {m.memory.id: m.memory for m in MEMORIES if m.scope.org == "acme"}
    globex = {m.memory.id: m.memory for m in MEMORIES if m.scope.org == "globex"}
    common = set(acme) & set(globex)
    assert len(common) >= 6
    assert all(acme[i].content != globex[i].content for i in common)
    for code in ("ERR-4471", "ERR-4417", "HARB-2291", "Zephyrquux"):
        assert any(code in m.content for m in globex.values()), code
    assert any("k8s" in m.aliases for m in globex.values())


def test_ben_keeps_private_memories_that_answer_ana_s_questions_otherwise() -> None:
    private = {m.memory.id: m.memory for m in MEMORIES if m.scope.user == "ben" and m.memory.visibility == "private"}
    assert "ERR-4471" in private["note-err-4471"].content
    assert visible_to(ANA)["pref-editor"].memory.content != private["pref-editor"].content


def test_ana_asks_ten_questions_and_both_organisations_ask_one_more() -> None:
    asked = Counter(q.query for q in QUESTIONS)
    twice = [query for query, times in asked.items() if times == 2]
    assert len(QUESTIONS) == 12
    assert twice == ["how long are database backups kept?"]
    assert {q.scope.org for q in QUESTIONS if q.query in twice} == {"acme", "globex"}
    assert sum(q.scope == ANA for q in QUESTIONS) == 11


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda q: f"{q.scope.org}: {q.query}")
def test_the_expected_memory_is_visible_to_the_asker(asked: DemoQuestion) -> None:
    assert asked.expect in visible_to(asked.scope)
    assert asked.shows.endswith(".") and len(asked.shows) <= 160


def test_every_leg_is_shown_by_a_question() -> None:
    assert {q.leg for q in QUESTIONS} >= set(LEGS)


def test_the_paraphrase_uses_no_word_of_the_corpus() -> None:
    words = word_starts(question("who is our biggest client?").query) - {"who", "is", "our"}
    assert words == {"bigge", "clien"}
    for m in MEMORIES:
        assert not words & word_starts(m.memory.content), m.memory.id


def test_the_french_question_shares_no_word_with_the_german_answer() -> None:
    asked = question("coupure d'électricité : que faire ?")
    answer = visible_to(ANA)[asked.expect].memory
    assert answer.language == "de"
    assert not word_starts(asked.query) & word_starts(answer.content)


def test_the_misspelt_and_the_alias_question_do_not_hold_the_word_they_find() -> None:
    misspelt, alias = question("Zephyrqux: how many retries?"), question("k8s maintenance window")
    assert not any("Zephyrqux:" in m.memory.content or "k8s" in m.memory.content for m in MEMORIES)
    assert "Zephyrquux" in visible_to(ANA)[misspelt.expect].memory.content
    assert "k8s" in visible_to(ANA)[alias.expect].memory.aliases


def test_the_japanese_question_has_two_characters_and_one_answer() -> None:
    (asked,) = [q for q in QUESTIONS if len(q.query) == 2]
    holding = [i for i, m in visible_to(ANA).items() if asked.query in m.memory.content]
    assert holding == [asked.expect]


def test_of_the_two_deploy_days_the_expected_one_is_newer() -> None:
    new = visible_to(ANA)[question("which day do we deploy on?").expect].memory
    old = visible_to(ANA)["decision-deploy-day-2024"].memory
    assert new.created_at is not None and old.created_at is not None
    assert (new.created_at - old.created_at).days > 500
    assert new.kind == old.kind == "decision"
