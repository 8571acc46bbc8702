"""The programs of docs/howto/llamaindex.md run, one after the other, as they stand there."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM

from llamaindex_sides import conversation, lent_loop
from lore_retriever.annotations import DERIVED_KEYS, WRITE_KEYS
from lore_retriever.testing import HashEmbedder

GUIDE = Path(__file__).parents[1] / "docs" / "howto" / "llamaindex.md"


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    with lent_loop():
        yield


@pytest.fixture
def text() -> str:
    return GUIDE.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
def test_its_programs_run(text: str, app_database: str, database: str, tmp_path: Path) -> None:
    with psycopg.connect(database) as source:
        source.execute(
            "CREATE TABLE public.data_handbook (id serial, text text, metadata_ json, node_id text, embedding vector(32));"
            "INSERT INTO public.data_handbook (text, metadata_, node_id, embedding)"
            " VALUES ('alpha', '{\"n\": 1}', 'p', array_fill(0.5::real, ARRAY[32])::vector)"
        )
    programs = re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    assert len(programs) == 8
    here = {
        "postgresql://app@db/notes": app_database,
        "postgresql+psycopg2://user@host/old": database,
        "OfflineEmbedder()": "HashEmbedder(32)",
        "Memory.from_defaults(": "conversation(tmp_path, ",
    }
    names: dict[str, Any] = {
        "HashEmbedder": HashEmbedder,
        "conversation": conversation,
        "tmp_path": tmp_path,
        "llm": MockFunctionCallingLLM(
            response_generator=lambda messages, **_: ChatMessage("At two.", role="assistant")
        ),
    }
    for program in programs:
        program = textwrap.dedent(program)
        for said, meant in here.items():
            program = program.replace(said, meant)
        exec(compile(program, str(GUIDE), "exec"), names)
    try:
        assert (names["done"].stored, names["done"].refused) == (1, [])
        assert names["ana"].get("p").metadata == {"n": 1}
        assert [found.node_id for found in names["retriever"].retrieve("ERR-4471")] == ["gw-errors"]
        assert [found.node_id for found in names["kept"]] == ["gw-errors"]
        assert [tool.metadata.name for tool in names["tools"]] == ["recall", "get_memory", "remember", "feedback"]
        assert asyncio.run(names["ask"]("When does the gateway restart?")) == "At two."
    finally:
        names["store"].close()


def test_it_names_every_key(text: str) -> None:
    assert {key for key in (*DERIVED_KEYS, *WRITE_KEYS) if f"`{key}`" not in text} == set()


def test_its_links_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (GUIDE.parent / target).exists(), target
