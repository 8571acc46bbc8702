"""The programs of the pages on changing models and on languages run, one after the other, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lore_retriever import Memories

DOCS = Path(__file__).parents[1] / "docs"


def run(page: str, here: dict[str, str]) -> dict[str, Any]:
    """What the programs of a page leave behind; they share their names, as on the page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for number, program in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)):
        for name, value in here.items():
            program = program.replace(name, value)
        exec(compile(program, f"{page}, program {number}", "exec"), names)
    return names


def test_the_page_on_changing_models(
    ana: Memories, app_database: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ana.remember("The gateway restarts every night.")
    addresses = {"postgresql://admin@db/notes": database, "postgresql://app@db/notes": app_database}
    left = run("howto/change-embedding-model.md", addresses)
    printed = capsys.readouterr().out
    assert "1 of 1 windows\nbuilding 1 vectors, 0 memories wait\nrank=1 value=" in printed
    assert [str(space.space) for space in left["admin"].spaces()] == ["lore-retriever/hash@1 (48 dimensions)"]


def test_the_page_on_languages(app_database: str, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    addresses = {"postgresql://admin@db/notes": database, "postgresql://app@db/notes": app_database}
    with run("explanation/language.md", addresses)["store"]:
        assert capsys.readouterr().out.splitlines() == [
            "The spare key hangs behind the picture in the hall.",
            "de Der Ersatzschlüssel hängt hinter dem Bild im Flur.",
            "[{'language': 'de', 'memories': 1, 'translated': 1, 'waiting': 0, 'failed': 0}]",
        ]
