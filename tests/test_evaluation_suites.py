"""Suites are read as they were written, and refuse what cannot be evaluated."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.loaders import (
    load_beir,
    load_locomo,
    load_longmemeval,
    load_plain,
    parse_date,
    read_qrels,
)
from lore_retriever.evaluation.specs import open_suites, read_specs
from lore_retriever.evaluation.suites import Document, Query, Suite


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    meta = {"scope": "ana", "kind": "runbook", "date": "2026-05-01", "lang": "en"}
    write_lines(
        folder / "corpus.jsonl",
        [
            {"id": "d1", "text": "Restart the gateway.", "meta": meta},
            {"id": "d2", "text": "Line\u2028separators stay inside a text.", "meta": {"scope": "ben"}},
            {"id": "d3", "text": "A colleague's.", "meta": {"scope": "ana", "owner": "cleo"}},
        ],
    )
    write_lines(
        folder / "queries.jsonl",
        [
            {"id": "q1", "text": "gateway?", "meta": {"scope": "ana", "forbidden": ["d3"], "kind": "name"}},
            {"id": "q2", "text": ["separators", "lines"], "meta": {"scope": "ben", "filter": {"lang": "de"}}},
            {"id": "q3", "text": "nothing", "meta": {"answerable": False, "as_of": "2026-06-01T12:00:00Z"}},
        ],
    )
    (folder / "qrels.tsv").write_text("query\tdocument\tgrade\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\nq9\td1\t1\n")
    return folder


def test_a_plain_folder_keeps_scopes_kinds_dates_and_owners(plain: Path) -> None:
    suite = load_plain(plain)
    assert suite.name == "notes"
    first = suite.documents[0]
    assert (first.scope, first.kind, first.owner) == ("ana", "runbook", None)
    assert first.created_at == datetime(2026, 5, 1, tzinfo=UTC)
    assert first.metadata == {"date": "2026-05-01", "lang": "en"}
    assert suite.documents[1].text == "Line\u2028separators stay inside a text."
    assert suite.documents[2].owner == "cleo"


def test_a_plain_folder_keeps_filters_forbidden_ids_and_short_queries(plain: Path) -> None:
    asked, several, unanswerable = load_plain(plain).queries
    assert asked.forbidden == {"d3"}
    assert several.texts == ("separators", "lines")
    assert several.filter == {"lang": "de"}
    assert not unanswerable.answerable
    assert unanswerable.as_of == datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_only_answerable_queries_with_a_relevant_document_are_judged(plain: Path) -> None:
    suite = load_plain(plain)
    assert [query.id for query in suite.judged] == ["q1", "q2"]
    assert [query.id for query in suite.unanswerable] == ["q3"]
    assert suite.relevant("q1") == {"d1": 2}


def test_a_query_sees_its_own_scope_without_other_owners(plain: Path) -> None:
    suite = load_plain(plain)
    assert suite.visible(suite.queries[0]) == {"d1"}


def test_the_fingerprint_follows_texts_and_grades_but_not_order_or_name(plain: Path) -> None:
    suite = load_plain(plain)
    turned = Suite("other", suite.documents[::-1], suite.queries[::-1], suite.qrels)
    assert turned.fingerprint == suite.fingerprint
    assert suite.clip(5).fingerprint != suite.fingerprint
    regraded = Suite("notes", suite.documents, suite.queries, {**suite.qrels, "q1": {"d1": 1}})
    assert regraded.fingerprint != suite.fingerprint
    assert regraded.corpus_fingerprint == suite.corpus_fingerprint


def test_relevant_documents_outside_the_corpus_are_counted() -> None:
    suite = Suite("s", (Document("d", "text"),), (Query("q", ("x",)),), {"q": {"d": 1, "gone": 1}})
    assert suite.dangling == 1


@pytest.mark.parametrize(
    ("documents", "queries", "seen"),
    [
        ((Document("d", "a"), Document("d", "b")), (), "'d'"),
        ((), (Query("q", ("a",)), Query("q", ("b",))), "'q'"),
        ((), (Query("q", ()),), "'q'"),
    ],
)
def test_a_suite_refuses_repeated_ids_and_empty_queries(
    documents: tuple[Document, ...], queries: tuple[Query, ...], seen: str
) -> None:
    with pytest.raises(InvalidInput, match=seen):
        Suite("s", documents, queries, {})


def test_a_broken_line_is_named_with_its_file_and_number(plain: Path) -> None:
    with (plain / "corpus.jsonl").open("a") as file:
        file.write("{not json\n")
    with pytest.raises(InvalidInput, match=r"corpus\.jsonl, line 4"):
        load_plain(plain)


def test_a_text_that_is_a_number_is_refused(plain: Path) -> None:
    write_lines(plain / "corpus.jsonl", [{"id": "d1", "text": 7}])
    with pytest.raises(InvalidInput, match=r"line 1: text is 7"):
        load_plain(plain)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"corpus\.jsonl does not exist"):
        load_plain(tmp_path)


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("q1\td1\t1\n", "head it"),
        ("query\tdocument\tgrade\nq1\td1\tgood\n", "line 2"),
        ("query\tdocument\tgrade\nq1 d1 1\n", "line 2"),
    ],
)
def test_qrels_without_header_or_with_broken_lines_are_refused(tmp_path: Path, content: str, seen: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=seen):
        read_qrels(path)


def test_a_beir_folder_joins_titles_and_keeps_the_split_s_queries(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "corpus.jsonl",
        [
            {"_id": "1", "title": "Heat", "text": "flows.", "metadata": {}},
            {"_id": "2", "title": "", "text": "bare"},
        ],
    )
    write_lines(tmp_path / "queries.jsonl", [{"_id": "a", "text": "heat?"}, {"_id": "b", "text": "train"}])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t1\n")
    suite = load_beir(tmp_path, name="heat")
    assert [document.text for document in suite.documents] == ["Heat\nflows.", "bare"]
    assert [query.id for query in suite.queries] == ["a"]
    assert suite.relevant("a") == {"1": 1}


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    turns = [
        {"speaker": "Ada", "dia_id": "D1:1", "text": "I moved to Bern."},
        {
            "speaker": "Bo",
            "dia_id": "D1:2",
            "text": "Look!",
            "blip_caption": "a red bicycle",
            "img_url": ["u"],
        },
    ]
    questions = [
        {"question": "Where does Ada live?", "answer": "Bern", "evidence": ["D1:1"], "category": 4},
        {"question": "Both?", "answer": "x", "evidence": ["D1:1; D1:2", "D", "D9:9"], "category": 1},
        {
            "question": "Where does Bo live?",
            "adversarial_answer": "Bern",
            "evidence": ["D1:1"],
            "category": 5,
        },
    ]
    conversation = {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_1": turns,
        "session_1_date_time": "12:09 am on 13 September, 2023",
        "session_2_date_time": "1:00 pm on 1 October, 2023",
    }
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation, "qa": questions}]))
    return path


def test_locomo_turns_become_documents_in_their_conversation(locomo: Path) -> None:
    suite = load_locomo(locomo)
    assert [document.text for document in suite.documents] == [
        "Ada: I moved to Bern.",
        "Bo: Look! [photo: a red bicycle]",
    ]
    assert suite.documents[0].id == "conv-1/D1:1"
    assert suite.documents[0].scope == "conv-1"
    assert suite.documents[0].created_at == datetime(2023, 9, 13, 0, 9, tzinfo=UTC)


def test_locomo_evidence_is_parsed_and_category_5_has_no_answer(locomo: Path) -> None:
    suite = load_locomo(locomo)
    assert suite.relevant("conv-1/q001") == {"conv-1/D1:1": 1, "conv-1/D1:2": 1}
    assert [query.id for query in suite.unanswerable] == ["conv-1/q002"]
    assert len(load_locomo(locomo, categories=(4,)).queries) == 1


@pytest.fixture
def longmemeval(tmp_path: Path) -> Path:
    item = {
        "question_id": "e47_1",
        "question_type": "single-session-user",
        "question": "What did I adopt?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
        "haystack_session_ids": ["s_a", "s_b"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I adopted a cat.", "has_answer": True},
                {"role": "assistant", "content": "Lovely."},
            ],
            [{"role": "user", "content": "Rain again."}],
        ],
        "answer_session_ids": ["s_a"],
    }
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps([item, {**item, "question_id": "e47_1_abs", "answer_session_ids": []}]))
    return path


def test_longmemeval_sessions_are_documents_and_each_question_a_scope(longmemeval: Path) -> None:
    suite = load_longmemeval(longmemeval)
    assert suite.documents[0].text == "user: I adopted a cat.\nassistant: Lovely."
    assert suite.documents[0].created_at == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert {document.scope for document in suite.documents} == {"e47_1", "e47_1_abs"}
    assert suite.relevant("e47_1") == {"e47_1/0/s_a": 1}
    assert suite.queries[0].as_of == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert [query.id for query in suite.unanswerable] == ["e47_1_abs"]


def test_longmemeval_turns_are_relevant_where_they_are_marked(longmemeval: Path) -> None:
    suite = load_longmemeval(longmemeval, granularity="turn")
    assert len(suite.documents) == 6
    assert suite.relevant("e47_1") == {"e47_1/0/s_a/0": 1}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
        ("2026-11-30T16:08:00+00:00", datetime(2026, 11, 30, 16, 8, tzinfo=UTC)),
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:05 pm on 8 May, 2023", datetime(2023, 5, 8, 12, 5, tzinfo=UTC)),
        ("2023/05/20 (Sat) 02:21", datetime(2023, 5, 20, 2, 21, tzinfo=UTC)),
    ],
)
def test_dates_are_read_in_the_published_spellings(written: str, expected: datetime) -> None:
    assert parse_date(written) == expected


def test_a_date_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'next week'"):
        parse_date("next week")


def test_a_list_names_selects_filters_and_clips_suites(plain: Path) -> None:
    listing = plain.parent / "suites.toml"
    listing.write_text(
        '[[suite]]\nname = "names"\npath = "notes"\nwhere = {kind = ["name"]}\n'
        '[[suite]]\nname = "rest"\npath = "notes"\nwhere_not = {kind = ["name"]}\n'
        'filter = {lang = "en"}\nmax_chars = 7\n'
    )
    names, rest = open_suites([listing])
    assert [query.id for query in names.queries] == ["q1"]
    assert [query.id for query in rest.queries] == ["q2", "q3"]
    assert {str(query.filter) for query in rest.queries} == {"{'lang': 'en'}"}
    assert rest.documents[0].text == "Restart"
    assert [suite.name for suite in open_suites([listing], only=["rest"])] == ["rest"]


def test_a_folder_with_a_dot_in_its_name_is_picked_by_all_of_it(plain: Path) -> None:
    dotted = plain.rename(plain.with_name("notes.v2"))
    assert [suite.name for suite in open_suites([dotted], only=["notes.v2"])] == ["notes.v2"]


def test_layouts_are_guessed_from_the_files(plain: Path, locomo: Path, longmemeval: Path) -> None:
    suites = open_suites([plain, locomo, longmemeval])
    assert [suite.name for suite in suites] == ["notes", "locomo10", "longmemeval_s"]


def test_lists_refuse_unknown_fields_names_and_repeated_suites(plain: Path) -> None:
    listing = plain.parent / "suites.toml"
    listing.write_text('[[suite]]\nname = "x"\npath = "notes"\nqrel = "typo.tsv"\n')
    with pytest.raises(InvalidInput, match="qrel"):
        read_specs(listing)
    with pytest.raises(InvalidInput, match="come twice"):
        open_suites([plain, plain])
    with pytest.raises(InvalidInput, match=r"'absent'\]; there are \['notes'\]"):
        open_suites([plain], only=["notes", "absent"])
    with pytest.raises(InvalidInput, match=r"'absent'\]; there are \['notes'\]"):
        open_suites([plain], only=["absent"])
    with pytest.raises(InvalidInput, match="is no suite"):
        open_suites([plain / "nowhere"])
