"""The commands that measure windows and codes run, here on a handful of texts and with hashed words for a model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A suite of eight long texts, a sentence of its own at the beginning and at the end of each."""
    words = ("walrus", "zebra", "ibis", "newt", "okapi", "quail", "tapir", "vole")
    texts = {
        word: f"A good morning to all of you who come by here today. The {word} opens every day with a song of its own and a warm cup of tea.\n\n"
        + "Nothing else happens here, as anybody can tell you who has been around. " * 40
        + f"\n\nAt night the {word} closes the green gate behind everybody and hides the {word} key. A good night to all of you who came by here today."
        for word in words
    }
    for name, rows in (
        ("corpus.jsonl", [{"id": word, "text": text, "meta": {}} for word, text in texts.items()]),
        ("queries.jsonl", [{"id": f"q-{word}", "text": f"who hides the {word} key", "meta": {}} for word in words]),
    ):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    qrels = "query\tdocument\tgrade\n" + "".join(f"q-{word}\t{word}\t1\n" for word in words)
    (tmp_path / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return tmp_path


def run(script: str, folder: Path, database: str, *options: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(SCRIPTS / script), str(folder), *options, "--model", "hash"]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent / "src")}
    done = subprocess.run(
        [*command, "--database", database], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def figures(lines: list[str], system: str) -> list[float]:
    [line] = [line for line in lines if line.startswith(f"| {system}")]
    return [float(cell) for cell in line.split("|")[2:-1]]


def test_the_command_on_windows_tells_heads_and_tails_apart(folder: Path, empty_database: str) -> None:
    lines = run("windows.py", folder, empty_database, "--min-chars", "2400")
    assert any("8 texts, " in line for line in lines)
    assert figures(lines, "search") == [1, 1]
    assert min(figures(lines, "vector leg over windows")) >= 0.5  # 32 hashed dimensions confuse some words
    assert len(figures(lines, "one vector a text")) == 2


def test_the_command_on_codes_tells_what_the_vector_leg_keeps(
    folder: Path, create_database: Callable[..., str], empty_database: str
) -> None:
    lines = run("codes.py", folder, empty_database, "--one-scope")
    assert figures(lines, "vector leg as it ships (exact scan)")[:2] == [1, 1]
    assert not any(line.startswith("| codes") for line in lines)


def test_the_command_on_evidence_tells_questions_with_an_answer_from_those_without(
    folder: Path, empty_database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        text = (folder / name).read_text(encoding="utf-8")
        (other / name).write_text(text.replace("key", "lantern").replace("hides", "lights"), encoding="utf-8")
    lines = run("evidence.py", folder, empty_database, str(other), "--size", "4")
    rows = [line for line in lines if " its own " in line or " of other" in line or f" of {folder.name}" in line]
    assert len(rows) == 4
    for line in rows:
        shares = [float(cell) for cell in line.split("|")[4:-1]]
        assert sum(shares[:4]) == pytest.approx(1, abs=0.01)
        assert shares[4] == pytest.approx(shares[0] + shares[1], abs=0.01)
    assert lines[-1].startswith("none or weak: ")


def test_the_command_on_briefings_sets_each_system_beside_ours(folder: Path, empty_database: str) -> None:
    lines = run("briefing.py", folder, empty_database, "--budgets", "200", "400")
    systems = [line.split("|")[1].strip() for line in lines if line.startswith("| ") and "|--" not in line]
    assert systems[:3] == ["", "build_context", "whole, fused"]
    assert "LlamaIndex Memory" in systems
    assert all(0 <= share <= 1 for share in figures(lines, "build_context"))


def test_the_command_on_recency_shows_what_a_floor_costs_and_buys(folder: Path, empty_database: str) -> None:
    lines = run("recency.py", folder, empty_database)
    rows = [[float(cell) for cell in line.split("|")[1:-1]] for line in lines if re.match(r"\| \d", line)]
    level = [row[2:] for row in rows if row[1] == 1.0]
    assert len(rows) == 24
    assert all(row == level[0] for row in level)  # with a floor of 1 no half-life matters
    free = [row for row in rows if row[1] == 0.0]
    assert all(row[-1] >= level[0][-1] for row in free)  # without a floor the newer comes first at least as often
