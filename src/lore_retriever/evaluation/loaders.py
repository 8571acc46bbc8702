"""Reads suites from files: a plain layout of our own, BEIR folders, LoCoMo and LongMemEval as published."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.suites import Document, Query, Suite
from lore_retriever.inputs import loaded_json

__all__ = [
    "Granularity",
    "load_beir",
    "load_locomo",
    "load_longmemeval",
    "load_plain",
    "parse_date",
    "read_qrels",
]

Granularity = Literal["turn", "session"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LOCOMO_DATE = re.compile(r"(\d{1,2}):(\d\d) ([ap])m on (\d{1,2}) ([a-z]+),? (\d{4})", re.IGNORECASE)
_LONGMEMEVAL_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?: \(\w+\))?(?: (\d\d):(\d\d))?")
_LOCOMO_TURN = re.compile(r"D\d+:\d+")


def load_plain(folder: str | Path, *, name: str | None = None, qrels: str = "qrels.tsv") -> Suite:
    """A suite in the plain layout: `corpus.jsonl`, `queries.jsonl` and a qrels file in one folder.

    A line of either JSON file is `{"id", "text", "meta"}`. In a document's `meta`, `scope`, `owner`, `kind`
    and `date` are read (all optional). In a query's, `scope`, `filter`, `as_of`, `forbidden` (ids that must
    not come back) and `answerable` (false: no answer exists). A query's `text` may be a list: short queries
    that are asked together. All of `meta` stays at hand as metadata.

    Args:
        folder: Where the three files stand.
        name: Name of the suite; the folder's name by default.
        qrels: Name of the judgements' file, tab-separated with a header: query, document, grade.

    Raises:
        InvalidInput: If a file is missing or a line cannot be read; file and line are named.
    """
    base = Path(folder)
    documents = tuple(_plain_document(row, at) for row, at in _json_lines(base / "corpus.jsonl"))
    queries = tuple(_plain_query(row, at) for row, at in _json_lines(base / "queries.jsonl"))
    return Suite(name or base.resolve().name, documents, queries, read_qrels(base / qrels))


def load_beir(folder: str | Path, *, name: str | None = None, split: str = "test") -> Suite:
    """A BEIR folder as published: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`.

    Title and text are joined by a line break. Only the queries that the split judges are kept.

    Raises:
        InvalidInput: If a file is missing or a line cannot be read; file and line are named.
    """
    base = Path(folder)
    qrels = read_qrels(base / "qrels" / f"{split}.tsv")
    documents = tuple(_beir_document(row, at) for row, at in _json_lines(base / "corpus.jsonl"))
    asked = (_beir_query(row, at) for row, at in _json_lines(base / "queries.jsonl"))
    queries = tuple(query for query in asked if query.id in qrels)
    return Suite(name or base.resolve().name, documents, queries, qrels)


def load_locomo(path: str | Path, *, name: str = "locomo", categories: tuple[int, ...] = (1, 2, 3, 4, 5)) -> Suite:
    """LoCoMo's one JSON file as published: every turn is a document, every conversation a scope.

    A turn reads `Speaker: text [photo: caption]`. The evidence of a question is relevant with grade 1;
    evidence that names no turn is dropped. Category 5 cannot be answered as asked, so those queries are
    marked so.

    Raises:
        InvalidInput: If the file is missing or is not a list of conversations.
    """
    documents: list[Document] = []
    queries: list[Query] = []
    qrels: dict[str, dict[str, int]] = {}
    for number, sample in enumerate(_json_list(Path(path))):
        scope = str(sample.get("sample_id", f"conversation-{number}"))
        turns = list(_locomo_turns(scope, sample.get("conversation", {})))
        documents.extend(turns)
        known = {turn.id for turn in turns}
        for position, item in enumerate(sample.get("qa", [])):
            if item.get("category") not in categories:
                continue
            query = _locomo_query(scope, position, item)
            evidence = _LOCOMO_TURN.findall(" ".join(item.get("evidence", [])))
            queries.append(query)
            qrels[query.id] = {f"{scope}/{turn}": 1 for turn in evidence if f"{scope}/{turn}" in known}
    return Suite(name, tuple(documents), tuple(queries), qrels)


def load_longmemeval(path: str | Path, *, name: str = "longmemeval", granularity: Granularity = "session") -> Suite:
    """A LongMemEval JSON file as published: every question is a scope and brings its own history.

    A document is a session or a turn. Relevant are the sessions that the file names, or the turns that it
    marks. Questions whose id ends in `_abs` have no answer in their history. A question is asked at its date.

    Raises:
        InvalidInput: If the file is missing or is not a list of questions.
    """
    documents: list[Document] = []
    queries: list[Query] = []
    qrels: dict[str, dict[str, int]] = {}
    for number, item in enumerate(_json_list(Path(path))):
        scope = str(_need(item, "question_id", f"{path}, question {number}"))
        grades: dict[str, int] = {}
        for document, relevant in _longmemeval_history(scope, item, granularity):
            documents.append(document)
            if relevant:
                grades[document.id] = 1
        queries.append(_longmemeval_query(scope, item))
        qrels[scope] = grades
    return Suite(name, tuple(documents), tuple(queries), qrels)


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Grades per query and document from a tab-separated file whose first line names its three columns.

    Raises:
        InvalidInput: If the file is missing, has no header, or a line is not query, document, whole number.
    """
    qrels: dict[str, dict[str, int]] = {}
    lines = _read(Path(path)).splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.split("\t")
        grade = _whole(cells[2]) if len(cells) == 3 else None
        if number == 1:
            if len(cells) != 3 or grade is not None:
                raise InvalidInput(f"{path} opens with {line[:80]!r}: head it query, document, grade.")
            continue
        if grade is None:
            raise InvalidInput(f"{path}, line {number}: {line[:80]!r} is not query, document, grade.")
        qrels.setdefault(cells[0], {})[cells[1]] = grade
    return qrels


def parse_date(value: str) -> datetime:
    """An aware time from ISO 8601, LoCoMo's or LongMemEval's spelling; UTC where none is given.

    Raises:
        InvalidInput: If it is none of the three.
    """
    if match := _LOCOMO_DATE.fullmatch(value.strip()):
        hour, minute, half, day, month, year = match.groups()
        if month.lower()[:3] in _MONTHS:
            clock = int(hour) % 12 + (12 if half.lower() == "p" else 0)
            number = _MONTHS.index(month.lower()[:3]) + 1
            return datetime(int(year), number, int(day), clock, int(minute), tzinfo=UTC)
    if match := _LONGMEMEVAL_DATE.fullmatch(value.strip()):
        numbers = [int(part or 0) for part in match.groups()]
        return datetime(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], tzinfo=UTC)
    try:
        parsed = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InvalidInput(f"{value!r} is not a date: write 2026-11-30 or 2026-11-30T16:08:00Z.") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _plain_document(row: Mapping[str, Any], at: str) -> Document:
    meta = _meta(row, at)
    date = meta.get("date")
    return Document(
        id=_need(row, "id", at),
        text=_need(row, "text", at),
        scope=_optional(meta, "scope", at),
        owner=_optional(meta, "owner", at),
        kind=_optional(meta, "kind", at),
        created_at=None if date is None else parse_date(str(date)),
        metadata={key: value for key, value in meta.items() if key not in ("scope", "owner", "kind")},
    )


def _plain_query(row: Mapping[str, Any], at: str) -> Query:
    meta = _meta(row, at)
    text = row.get("text")
    texts = tuple(text) if isinstance(text, list) else (_need(row, "text", at),)
    if not all(isinstance(each, str) for each in texts):
        raise InvalidInput(f"{at}: text is {text!r}: write one text or a list of texts.")
    as_of = meta.get("as_of")
    return Query(
        id=_need(row, "id", at),
        texts=texts,
        scope=_optional(meta, "scope", at),
        filter=meta.get("filter"),
        forbidden=frozenset(meta.get("forbidden", ())),
        answerable=bool(meta.get("answerable", True)),
        as_of=None if as_of is None else parse_date(str(as_of)),
        metadata=meta,
    )


def _beir_document(row: Mapping[str, Any], at: str) -> Document:
    title = str(row.get("title") or "")
    text = _need(row, "text", at)
    metadata = {"title": title} if title else {}
    return Document(id=_need(row, "_id", at), text=f"{title}\n{text}" if title else text, metadata=metadata)


def _beir_query(row: Mapping[str, Any], at: str) -> Query:
    return Query(id=_need(row, "_id", at), texts=(_need(row, "text", at),))


def _locomo_turns(scope: str, conversation: Mapping[str, Any]) -> Iterator[Document]:
    for session, turns in conversation.items():
        if not re.fullmatch(r"session_\d+", session):
            continue
        date = conversation.get(f"{session}_date_time")
        for turn in turns:
            caption = f" [photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Document(
                id=f"{scope}/{turn['dia_id']}",
                text=f"{turn['speaker']}: {turn.get('text', '')}{caption}",
                scope=scope,
                created_at=parse_date(date) if date else None,
                metadata={"session": session, "speaker": turn["speaker"]},
            )


def _locomo_query(scope: str, position: int, item: Mapping[str, Any]) -> Query:
    return Query(
        id=f"{scope}/q{position:03d}",
        texts=(str(item["question"]),),
        scope=scope,
        answerable=item.get("category") != 5,
        metadata={"category": item.get("category")},
    )


def _longmemeval_history(
    scope: str, item: Mapping[str, Any], granularity: Granularity
) -> Iterator[tuple[Document, bool]]:
    sessions = item.get("haystack_sessions", [])
    names = item.get("haystack_session_ids") or [f"s{n}" for n in range(len(sessions))]
    dates = item.get("haystack_dates") or [None] * len(sessions)
    answers = set(item.get("answer_session_ids", []))
    for ordinal, (name, date, turns) in enumerate(zip(names, dates, sessions, strict=True)):
        # One history may hold a session twice: the place in it keeps the ids apart.
        base = f"{scope}/{ordinal}/{name}"
        when = parse_date(date) if date else None
        spoken = [f"{turn['role']}: {turn['content']}" for turn in turns]
        if granularity == "session":
            yield Document(base, "\n".join(spoken), scope, created_at=when), name in answers
            continue
        for number, (turn, text) in enumerate(zip(turns, spoken, strict=True)):
            document = Document(f"{base}/{number}", text, scope, created_at=when)
            yield document, bool(turn.get("has_answer"))


def _longmemeval_query(scope: str, item: Mapping[str, Any]) -> Query:
    date = item.get("question_date")
    return Query(
        id=scope,
        texts=(str(item["question"]),),
        scope=scope,
        answerable=not scope.endswith("_abs"),
        as_of=parse_date(date) if date else None,
        metadata={"type": item.get("question_type")},
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"{path} does not exist: a suite needs it.") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}."
        ) from error


def _json_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    # Not splitlines(): texts may hold U+2028, which JSON leaves unescaped.
    for number, line in enumerate(_read(path).split("\n"), start=1):
        if not line.strip():
            continue
        at = f"{path}, line {number}"
        row = loaded_json(line, what=at)
        if not isinstance(row, dict):
            raise InvalidInput(f"{at} is {line[:80]!r}: one JSON object a line.")
        yield row, at


def _json_list(path: Path) -> list[dict[str, Any]]:
    rows = loaded_json(_read(path), what=str(path))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"{path} holds {type(rows).__name__}: it must be a list of objects.")
    return rows


def _meta(row: Mapping[str, Any], at: str) -> dict[str, Any]:
    meta = row.get("meta", {})
    if not isinstance(meta, dict):
        raise InvalidInput(f"{at}: meta is {meta!r}: it must be an object.")
    return meta


def _need(row: Mapping[str, Any], key: str, at: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise InvalidInput(f"{at}: {key} is {value!r}: it must be a text.")
    return value


def _optional(meta: Mapping[str, Any], key: str, at: str) -> str | None:
    return None if meta.get(key) is None else _need(meta, key, at)


def _whole(cell: str) -> int | None:
    try:
        return int(cell)
    except ValueError:
        return None
