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
    assert json.loads(lore("export-jsonl", file, "--of-user", "ana", "--json").stdout) == {"memories": 2, "names": 0}
    assert lore("export-jsonl", file).stdout == "2 memories\n"
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
        (b"", "in.jsonl holds nothing"),
        (b'{"memory": {}}', "comes before {"),
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


def test_an_export_to_a_dash_is_refused(lore: CommandLine) -> None:
    assert "- is no file. Give one, or /dev/stdout" in " ".join(lore("export-jsonl", "-").stderr.split())


@pytest.mark.parametrize(
    "command", [("import-jsonl", "in.jsonl"), ("export-jsonl", "out.jsonl"), ("maintain",), ("embed",)]
)
def test_a_folder_without_a_store_is_named_and_nothing_is_made(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CommandLine({})("--folder", str(tmp_path / "typo"), *command)
    assert told.exit_code != 0
    assert f"{tmp_path / 'typo'} holds no store. Check --folder, or make one with" in " ".join(told.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_a_store_is_told(empty_database: str, tmp_path: Path) -> None:
    told = CommandLine({"LORE_DATABASE": empty_database})("export-jsonl", str(tmp_path / "out.jsonl"))
    assert told.exit_code != 0
    assert "holds no lore-retriever store. Run `lore-retriever migrate`" in " ".join(told.stderr.split())
