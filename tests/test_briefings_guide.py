"""The programs of docs/howto/briefings.md run, one after the other, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lore_retriever.testing import HashEmbedder
from lore_retriever.types import SECTIONS

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = DOCS / "howto" / "briefings.md"


def test_its_programs_run(app_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(programs) == 6
    names: dict[str, Any] = {"HashEmbedder": HashEmbedder}
    for program in programs:
        program = program.replace("postgresql://app@db/notes", app_database)
        program = program.replace("OfflineEmbedder()", "HashEmbedder(32)")
        exec(compile(program, str(GUIDE), "exec"), names)
    try:
        printed = capsys.readouterr().out
        assert "§ err-4471 gotcha" in printed
        assert "relevant err-4471 full" in printed or "recent err-4471 full" in printed
        assert names["ana"].recall("ERR-4471").hits[0].reinforcement > 1.1
    finally:
        names["store"].close()


def test_it_names_every_section_and_every_reason() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in (*SECTIONS, "budget", "duplicate", "kind", "invalid", "full", "excerpt", "passage", "line"):
        assert f"`{name}`" in text


@pytest.mark.parametrize("page", [GUIDE, DOCS / "explanation" / "signals.md"])
def test_its_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
