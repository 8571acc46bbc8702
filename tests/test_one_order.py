"""SQL, Python and the command line give the same hits, in the same order, with the same scores."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli_tools import ana_of
from lore_retriever import Memories, NewMemory, Recall
from lore_retriever.operations.common import halfvec_text
from lore_retriever.testing import HashEmbedder
from support import run_psql

QUERY = "walrus census on the northern beach"
KINDS = ("decision", "fact", "episode", "task", "document")

SESSION = """
BEGIN;
SELECT set_config('search_path', 'lore, public', true), set_config('role', 'lore_user', true),
       set_config('lore.org_id', 'acme', true), set_config('lore.user_id', 'ana', true);
SELECT 'hit', id, score, relevance, recency, reinforcement, vector_rank, exact_rank, relaxed_rank
FROM recall(ARRAY[:'query'], ARRAY[:'vector']::halfvec[], k => 20, as_of => NULLIF(:'as_of', '')::timestamptz);
COMMIT;
"""


def number(text: str) -> float | None:
    return float(text) if text else None


def in_sql(database: str, as_of: datetime | None) -> list[tuple[Any, ...]]:
    """Id, score, relevance, recency, reinforcement and ranks of what plain psql is shown."""
    [vector] = HashEmbedder(32).embed_queries([QUERY])
    when = "" if as_of is None else as_of.isoformat()
    printed = run_psql(database, SESSION, query=QUERY, vector=halfvec_text(vector), as_of=when)
    rows = [line.split("|")[1:] for line in printed.split("\n") if line.startswith("hit|")]
    return [(row[0], *map(number, row[1:])) for row in rows]


def as_rows(found: Recall) -> list[tuple[Any, ...]]:
    """The same of a `Recall`."""
    legs = ("vector", "exact", "relaxed")
    return [
        (
            hit.id,
            *(hit.score, hit.relevance, hit.recency, hit.reinforcement),
            *(hit.legs[leg].rank if leg in hit.legs else None for leg in legs),
        )
        for hit in found.hits
    ]


@pytest.fixture
def filled(ana: Memories) -> Memories:
    """Memories of several kinds and ages, some of them voted on."""
    beaches = ("northern", "southern", "stony", "quiet")
    now = datetime.now(UTC)
    ana.remember_many(
        [
            NewMemory(
                content=f"the walrus census on the {beaches[n % 4]} beach, count {n}" + " and more" * (n % 3),
                id=f"m{n:02}",
                kind=KINDS[n % 5],
                created_at=now - timedelta(days=n * 3.5),
            )
            for n in range(20)
        ]
    )
    for n in range(0, 20, 3):
        for recall_id in range(n % 4 + 1):
            ana.feedback(f"m{n:02}", useful=n % 2 == 0, recall_id=str(recall_id))
    return ana


def test_sql_python_and_the_command_line_give_one_order(filled: Memories, app_database: str) -> None:
    as_of = datetime.now(UTC)
    shown = as_rows(filled.recall(QUERY, limit=20, as_of=as_of))
    assert len(shown) == 20
    assert shown == in_sql(app_database, as_of)

    printed = Recall.model_validate_json(ana_of(app_database)("recall", QUERY, "--limit", "20", "--json").stdout)
    plain = as_rows(filled.recall(QUERY, limit=20))
    assert [row[0] for row in as_rows(printed)] == [row[0] for row in plain]
    assert [row[0] for row in plain] == [row[0] for row in in_sql(app_database, None)]
    for row, other in zip(as_rows(printed), plain, strict=True):
        assert row == pytest.approx(other, abs=1e-4)  # age is counted from now, which has moved on
    briefed = filled.build_context(QUERY, max_tokens=4000, as_of=as_of, sections=["relevant"])
    order = [row[0] for row in shown]
    assert [item.id for item in briefed.items] == [
        name for name in order if name not in {d.id for d in briefed.dropped}
    ]


def test_every_score_is_what_ranks_age_and_votes_make_by_hand(filled: Memories) -> None:
    as_of = datetime.now(UTC)
    found = filled.recall(QUERY, limit=20, as_of=as_of)
    floors = {"decision": 0.95, "fact": 0.95, "episode": 0.85, "task": 0.8}
    half_lives = {"decision": 3650, "fact": 365, "episode": 30, "task": 14}
    multiplied = 0
    for hit in found.hits:
        n = int(hit.id[1:])
        fused = sum(1 / (60 + leg.rank) for leg in hit.legs.values())
        days = half_lives.get(hit.kind)
        age_days = (as_of - hit.updated_at).total_seconds() / 86_400
        recency = 1.0 if days is None else max(floors[hit.kind], 0.5 ** (age_days / days))
        votes = n % 4 + 1 if n % 3 == 0 else 0
        useful, misleading = (votes, 0) if n % 2 == 0 else (0, votes)
        lift = min(1.4, max(0.5, 1 + 0.15 * math.log(1 + useful) - 0.25 * math.log(1 + misleading)))
        assert hit.relevance == pytest.approx(fused, abs=1e-9), hit
        assert hit.recency == pytest.approx(recency, abs=1e-9), hit
        assert hit.reinforcement == pytest.approx(lift, abs=1e-9), hit
        assert hit.score == pytest.approx(fused * recency * lift, abs=1e-9), hit
        multiplied += recency < 1 and lift != 1
    assert multiplied >= 3
