"""The commands that measure windows and codes run, here on a handful of texts and with hashed words for a model."""

from __future__ import annotations

import json
import os
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
    command = [sys.executable, "-W", "error", str(SCRIPTS / script), str(folder), "--model", "hash", *options]
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
