"""Reads the demo's memories and questions from the files beside this module. No database, no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from pydantic import Field

from lore_retriever.types import LegName, NewMemory, Record, Scope

__all__ = [
    "DEMO_AS_OF",
    "DemoMemory",
    "DemoQuestion",
    "demo_memories",
    "demo_memories_by_scope",
    "demo_questions",
]

DEMO_AS_OF = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
"""The corpus's own "today", later than every memory: recalled `as_of` this moment, the demo never ages."""


class DemoMemory(Record):
    """One memory of the corpus and who writes it.

    Attributes:
        scope: The organisation and the user who owns the memory.
        memory: What to store; `id` and `created_at` are always given.
    """

    scope: Scope
    memory: NewMemory


class DemoQuestion(Record):
    """One question, who asks it, and what a good answer is.

    Attributes:
        scope: On whose behalf to ask.
        query: The question as typed.
        shows: One sentence on what this question demonstrates.
        expect: Id of the memory that should come back, visible to `scope`.
        within: It should be among the first `within` hits; at least 1.
        leg: The leg that should be seen at work on the expected hit; None where the point is another one.
    """

    scope: Scope
    query: str
    shows: str
    expect: str
    within: int = Field(default=1, ge=1)
    leg: LegName | None = None


def demo_memories() -> list[DemoMemory]:
    """Every memory of the corpus, in the order of the file: two organisations, two users each."""
    return [
        DemoMemory(scope=scope, memory=NewMemory.model_validate(fields))
        for scope, fields in _scoped_lines("memories.jsonl")
    ]


def demo_memories_by_scope() -> dict[Scope, list[NewMemory]]:
    """The corpus by owner, so that each list can go to one `as_user(…).remember_many(…)`."""
    grouped: dict[Scope, list[NewMemory]] = {}
    for item in demo_memories():
        grouped.setdefault(item.scope, []).append(item.memory)
    return grouped


def demo_questions() -> list[DemoQuestion]:
    """The questions, in the order in which to show them."""
    return [
        DemoQuestion.model_validate({"scope": scope, **fields}) for scope, fields in _scoped_lines("questions.jsonl")
    ]


def _scoped_lines(name: str) -> Iterator[tuple[Scope, dict[str, Any]]]:
    """Each line's scope, and its other fields. Split at newlines only: content may hold other line breaks."""
    for line in (files(__package__) / name).read_text(encoding="utf-8").split("\n"):
        if line:
            fields: dict[str, Any] = json.loads(line)
            yield Scope(org=fields.pop("org"), user=fields.pop("user")), fields
