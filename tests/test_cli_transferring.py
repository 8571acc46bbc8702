"""`export-jsonl` and `import-jsonl`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_tools import CommandLine, ana_of


@pytest.fixture
def lore(app_database: str, database: str) -> CommandLine:
    return ana_of(app_database, database)


def test_what_was_exported_comes_back(lore: CommandLine, tmp_path: Path) -> None:
    file = str(tmp_path / "out.jsonl")
    lore("remember", "the tide is at four", "--id", "tide")
    lore("remember", "the gate is shut", "--id", "gate")
    assert lore("export-jsonl", file).stdout == "3 lines written\n"
    assert json.loads(lore("export-jsonl", file, "--of-user", "nobody", "--json").stdout) == {"lines": 1}
    lore("export-jsonl", file)
    lore("forget", "tide")
    back = lore("import-jsonl", file, "--jobs", "2")
    assert (back.exit_code, back.stdout) == (0, "1 stored, 1 kept\n")
    assert "1 memories wait for their vectors" in back.stderr
    assert "the tide is at four" in lore("recall", "tide").stdout
    replaced = json.loads(lore("import-jsonl", file, "--on-existing", "replace", "--json").stdout)
    assert replaced == {"stored": 2, "kept": 0, "refused": 0, "names": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "this holds nothing"),
        (b'{"memory": {}}', "line 1: content cannot be read"),
        (b'{"format": "lore-retriever export 1"}\n\xff', "is not UTF-8: byte 0xff"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_no_export_is_a_clear_error(
    lore: CommandLine, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "in.jsonl"
    if content is not None:
        file.write_bytes(content)
    told = lore("import-jsonl", str(file))
    assert told.exit_code != 0
    assert message in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr


def test_a_place_that_cannot_be_written_is_a_clear_error(lore: CommandLine, tmp_path: Path) -> None:
    told = lore("export-jsonl", str(tmp_path / "no" / "out.jsonl"))
    assert told.exit_code != 0
    assert "cannot be written: No such file" in " ".join(told.stderr.split())


def test_jobs_out_of_bounds_are_refused(lore: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"format": "lore-retriever export 1"}')
    told = lore("import-jsonl", str(tmp_path / "in.jsonl"), "--jobs", "0")
    assert told.exit_code != 0
    assert "jobs is 0; give a number of connections from 1 to 32" in " ".join(told.stderr.split())
