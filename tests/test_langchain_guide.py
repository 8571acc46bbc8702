"""The programs of docs/howto/langchain.md run, one after the other, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from lore_retriever.annotations import DERIVED_KEYS, WRITE_KEYS
from lore_retriever.testing import HashEmbedder

GUIDE = Path(__file__).parents[1] / "docs" / "howto" / "langchain.md"


class Model(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Model:  # type: ignore[override]
        return self


@pytest.fixture
def text() -> str:
    return GUIDE.read_text(encoding="utf-8")


def test_its_programs_run(
    text: str, app_database: str, empty_database: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database) as source:
        source.execute(
            "CREATE TABLE public.langchain_pg_collection (uuid uuid, name text);"
            "CREATE TABLE public.langchain_pg_embedding (id text, collection_id uuid, document text, cmetadata jsonb);"
            "INSERT INTO public.langchain_pg_collection VALUES (gen_random_uuid(), 'my_collection');"
            "INSERT INTO public.langchain_pg_embedding SELECT 'p', uuid, 'alpha', NULL FROM public.langchain_pg_collection;"
            "CREATE TABLE public.notes (id text, body text, meta jsonb, written timestamptz, team text);"
            "INSERT INTO public.notes VALUES ('n', 'bravo', '{\"n\": 1}', '2026-01-01', 'infra')"
        )
    programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(programs) == 8
    here = {
        "postgresql://app@db/notes": app_database,
        "postgresql+psycopg://postgres@db/scratch": empty_database,
        "postgresql+psycopg://user@host/old": database,
        "postgresql://user@host/old": database,
        '"anthropic:claude-sonnet-4-5"': "MODEL",
        "OfflineEmbedder()": "HashEmbedder(32)",
    }
    names: dict[str, Any] = {
        "HashEmbedder": HashEmbedder,
        "MODEL": Model(messages=iter([AIMessage("At two.")])),
    }
    for program in programs:
        for said, meant in here.items():
            program = program.replace(said, meant)
        exec(compile(program, str(GUIDE), "exec"), names)
    try:
        assert (names["done"].stored, names["done"].refused) == (1, [])
        memory = names["ana"].get("n")
        assert (memory.content, memory.metadata, memory.kind) == ("bravo", {"n": 1}, "fact")
        assert names["ana"].get("p").content == "alpha"
        assert [document.id for document in names["retriever"].invoke("ERR-4471", k=1)] == ["gw-errors"]
        assert [tool.name for tool in names["tools"]] == ["recall", "get_memory", "remember", "feedback"]
        assert names["documents"].similarity_search("frozen on Fridays", k=1)[0].metadata == {"source": "handbook"}
    finally:
        names["store"].close()


def test_it_names_every_key(text: str) -> None:
    assert {key for key in (*DERIVED_KEYS, *WRITE_KEYS) if f"`{key}`" not in text} == set()


def test_its_links_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (GUIDE.parent / target).exists(), target
