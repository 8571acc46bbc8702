"""Probes have known answers, repeat with their seed, and ask what they say they ask."""

from __future__ import annotations

import pytest

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.probes import (
    cross_language_probes,
    edge_probes,
    find_identifiers,
    identifier_probes,
    inside_sentences,
    isolation_probes,
    misspelling_probes,
    short_query_probes,
    title_of,
    translated_probes,
    unanswerable_probes,
)
from lore_retriever.evaluation.suites import Document, Query, Suite


def suite_of(*documents: Document, queries: tuple[Query, ...] = ()) -> Suite:
    qrels = {query.id: {documents[0].id: 1} for query in queries}
    return Suite("s", documents, queries, qrels)


def test_identifiers_are_what_people_paste() -> None:
    text = (
        "ERR-4471 on web-03.eu.example.org after v2.14.1-rc3: see /etc/app/conf.d, KubePodCrashLooping, "
        "max_parallel_workers, CVE-2020-35860 and 3f2504e0-4f89-11d3-9a0c-0305e82c3301 "
        "(mail ops@example.org)."
    )
    assert find_identifiers(text) == {
        "ERR-4471",
        "web-03.eu.example.org",
        "v2.14.1-rc3",
        "/etc/app/conf.d",
        "KubePodCrashLooping",
        "max_parallel_workers",
        "CVE-2020-35860",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "ops@example.org",
    }


def test_ordinary_words_numbers_and_hyphens_are_no_identifiers() -> None:
    text = "An up-to-date, 3-year-old plan of the 1900s; 12,000 people. Yes/no? PostgreSQL"
    assert find_identifiers(text) == set()


def test_identifier_probes_find_every_text_that_holds_the_name_in_its_scope() -> None:
    suite = suite_of(
        Document("a", "fixed ERR-4471 today", scope="x"),
        Document("b", "ERR-4471, again", scope="x"),
        Document("c", "ERR-4471 elsewhere", scope="y"),
    )
    probes = identifier_probes(suite)
    assert {(q.text, q.scope): set(probes.relevant(q.id)) for q in probes.queries} == {
        ("ERR-4471", "x"): {"a", "b"},
        ("ERR-4471", "y"): {"c"},
    }
    assert len(identifier_probes(suite, max_documents=1).queries) == 1


def test_sentences_carry_the_query_and_keep_its_answers() -> None:
    suite = suite_of(Document("a", "x"), queries=(Query("q", ("ERR-4471",)),))
    probes = inside_sentences(suite, ("why {}?", "{} again"))
    assert [query.text for query in probes.queries] == ["why ERR-4471?", "ERR-4471 again"]
    assert all(probes.relevant(query.id) == {"a": 1} for query in probes.queries)
    with pytest.raises(InvalidInput, match="'no place'"):
        inside_sentences(suite, ("no place",))


def test_a_misspelling_changes_one_word_of_a_unique_title_and_nothing_else() -> None:
    titles = [f"Rotate the {name} credentials" for name in ("gateway", "billing", "mailer", "search")]
    documents = [Document(str(n), f"# {title}\nbody") for n, title in enumerate(titles)]
    twice = [Document("t1", "# Same title\nx"), Document("t2", "# Same title\ny")]
    probes = misspelling_probes(suite_of(*documents, *twice), seed=5)
    assert len(probes.queries) == 4
    for query in probes.queries:
        before, after = str(query.metadata["title"]).split(), query.text.split()
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert len(changed) == 1
        assert len(changed[0][0]) >= 5
        assert changed[0][0][0] == changed[0][1][0]
        assert probes.relevant(query.id).keys() == {str(titles.index(str(query.metadata["title"])))}


def test_probes_repeat_with_their_seed_and_change_with_another() -> None:
    documents = [Document(str(n), f"# Title number {chr(97 + n)} something\nbody") for n in range(20)]
    suite = suite_of(*documents)
    assert misspelling_probes(suite, seed=1) == misspelling_probes(suite, seed=1)
    assert misspelling_probes(suite, seed=1).queries != misspelling_probes(suite, seed=2).queries
    assert len(misspelling_probes(suite, size=7).queries) == 7


def test_head_and_tail_probes_ask_for_the_same_long_texts_from_both_ends() -> None:
    def long_text(name: str) -> str:
        lines = [f"Line {n} of the {name} report tells what happened on that day." for n in range(100)]
        return "\n".join(lines)

    shared = "\n".join(f"Line {n} of the shared report tells what happened on that day." for n in range(100))
    suite = suite_of(
        Document("a", long_text("first")),
        Document("b", long_text("second")),
        Document("short", "Line 5 of the third report tells what happened on that day."),
        Document("c1", shared),
        Document("c2", shared),
    )
    heads, tails = edge_probes(suite)
    assert {str(heads.relevant(q.id)) for q in heads.queries} == {"{'a': 1}", "{'b': 1}"}
    assert {str(tails.relevant(q.id)) for q in tails.queries} == {"{'a': 1}", "{'b': 1}"}
    for probes, part in ((heads, slice(None, 640)), (tails, slice(-640, None))):
        for query in probes.queries:
            (found,) = probes.relevant(query.id)
            text = next(document.text for document in suite.documents if document.id == found)
            assert query.text in text[part]


def test_isolation_probes_forbid_the_copies_of_a_colleague_and_a_stranger() -> None:
    suite = suite_of(Document("a", "The gateway restarts at night.", scope="x"))
    probes = isolation_probes(suite)
    (query,) = probes.queries
    assert query.forbidden == {"a~colleague", "a~stranger"}
    assert probes.visible(query) == {"a"}
    assert probes.relevant(query.id) == {"a": 1}
    assert {document.text for document in probes.documents} == {"The gateway restarts at night."}
    copies = {document.id: document for document in probes.documents}
    assert (copies["a~colleague"].scope, copies["a~stranger"].owner) == ("x", None)
    assert copies["a~colleague"].owner is not None
    assert copies["a~stranger"].scope != "x"


def test_a_question_becomes_two_or_three_short_queries() -> None:
    questions = (
        Query("q1", ("When did Caroline go to the LGBTQ support group?",)),
        Query("q2", ("Where is the gateway?",)),
        Query("q3", ("red fox, blue whale, green frog and a white owl",)),
    )
    probes = short_query_probes(suite_of(Document("a", "x"), queries=questions))
    assert {query.id: query.texts for query in probes.queries} == {
        "q1": ("Caroline go", "LGBTQ support group"),
        "q3": ("red fox blue whale", "green frog", "white owl"),
    }


def test_cross_language_probes_look_up_the_counterpart_in_the_target_language() -> None:
    german = "Der Dienst startet jede Nacht um drei Uhr neu und meldet sich. Danach ist Ruhe."
    suite = suite_of(
        Document("en", "The service restarts every night at three.", metadata={"lang": "en", "para": 1}),
        Document("de", german, metadata={"lang": "de", "para": 1}),
        Document("alone", german, metadata={"lang": "de", "para": 2}),
    )
    (query,) = (probes := cross_language_probes(suite)).queries
    assert query.text == "Der Dienst startet jede Nacht um drei Uhr neu und meldet sich."
    assert query.filter == {"lang": "en"}
    assert probes.relevant(query.id) == {"en": 1}
    with pytest.raises(InvalidInput, match="'fr'"):
        cross_language_probes(suite, target="fr")


def test_translated_probes_keep_the_answers() -> None:
    suite = suite_of(Document("a", "x"), queries=(Query("q", ("night",)),))
    probes = translated_probes(suite, lambda text: {"night": "Nacht"}[text], language="de")
    assert [(query.id, query.text) for query in probes.queries] == [("q#de", "Nacht")]
    assert probes.relevant("q#de") == {"a": 1}


def test_another_suite_s_questions_have_no_answer_here() -> None:
    here = suite_of(Document("a", "x", scope="one"), Document("b", "y", scope="two"))
    there = suite_of(Document("c", "z"), queries=(Query("q1", ("why?",)), Query("q2", ("how?",))))
    probes = unanswerable_probes(here, there)
    assert probes.judged == ()
    assert {query.scope for query in probes.unanswerable} == {"one", "two"}


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (Document("d", "# Rotate keys\nbody"), "Rotate keys"),
        (Document("d", "body", metadata={"title": " Given "}), "Given"),
        (Document("d", "x" * 200 + "\nbody"), None),
        (Document("d", "---\nbody"), None),
    ],
)
def test_titles_come_from_metadata_or_a_short_first_line(document: Document, title: str | None) -> None:
    assert title_of(document) == title
