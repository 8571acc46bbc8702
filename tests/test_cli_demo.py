"""`demo`, with the model that ships: every question finds its answer, and fits a terminal of 100 columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.cells import cell_len

from cli_tools import CommandLine
from lore_retriever import Recall
from lore_retriever.demo import demo_questions


def run_demo(lore: CommandLine, *options: str) -> str:
    result = lore("demo", *options)
    assert result.exit_code == 0, result.stderr
    stdout: str = result.stdout
    return stdout


def contents(database: str) -> Any:
    with psycopg.connect(database) as connection:
        return connection.execute(
            "SELECT count(*), max(version), (SELECT count(*) FROM lore_demo.vectors) FROM lore_demo.memories"
        ).fetchone()


def test_every_question_finds_its_answer_and_a_second_run_changes_nothing(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lore = CommandLine({"LORE_DATABASE": empty_database})
    answers = [Recall.model_validate(each) for each in json.loads(run_demo(lore, "--json"))]
    questions = demo_questions()
    assert len(answers) == len(questions)
    for question, found in zip(questions, answers, strict=True):
        hit = next((hit for hit in found.hits if hit.id == question.expect), None)
        assert hit is not None, question.query
        assert hit.rank <= question.within, question.query
        assert question.leg is None or question.leg in hit.legs, question.query
    before = contents(empty_database)

    stdout = run_demo(lore)
    assert contents(empty_database) == before
    assert before[1] == 1
    assert max(cell_len(line) for line in stdout.splitlines()) <= 100
    for number, question in enumerate(questions, start=1):
        assert f"{number}. {question.query}   {question.scope.user} of {question.scope.org}" in stdout
    assert stdout.count("✓ 1") == len(questions)
    assert "lore-retriever add" in stdout


def test_the_demo_leaves_the_store_of_the_same_database_alone(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run_demo(CommandLine({"LORE_DATABASE": database}), "--model", "hash")
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM lore.memories").fetchone() == (0,)


def test_a_demo_that_another_version_left_is_made_anew(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lore = CommandLine({"LORE_DATABASE": database})
    run_demo(lore, "--model", "hash")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE lore_demo.migrations SET hash = 'x' WHERE number = 3")
    run_demo(lore, "--model", "hash")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE lore_demo.migrations SET hash = 'x' WHERE number = 3")
    named = lore("demo", "--model", "hash", "--schema", "lore_demo")
    assert named.exit_code == 3
    assert "0003_tables" in named.stderr
