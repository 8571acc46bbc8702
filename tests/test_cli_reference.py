"""Every command is documented as it is."""

from __future__ import annotations

import re

import pytest

from cli_reference import PAGE, commands, section
from cli_tools import CommandLine

COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_documented_with_all_of_its_options(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert section(name, COMMANDS[name]) in page, "run: python tests/cli_reference.py"


def test_no_command_is_documented_that_is_not_there() -> None:
    documented = {line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("### ")}
    assert documented == {section(name, command).splitlines()[0] for name, command in COMMANDS.items()}


def test_every_command_explains_itself() -> None:
    lore = CommandLine({})
    overview = lore("--help").stdout
    for name, command in COMMANDS.items():
        assert command.help, name
        assert name.split()[0] in overview
        told = lore(*name.split(), "--help")
        assert (told.exit_code, "Usage: " in told.stdout) == (0, True)
        untold = [parameter.name for parameter in command.params if not parameter.help]
        assert untold == [] or name.startswith("eval "), name


def test_no_page_and_no_message_names_a_command_that_is_not_there() -> None:
    root = PAGE.parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("sql/**/*.md"), *root.glob("src/**/*.py")]
    named = {(page.name, word) for page in pages for word in commands_named(page.read_text(encoding="utf-8"))}
    assert len(named) > 50
    known = {name.split()[0] for name in COMMANDS}
    assert {(page, word) for page, word in named if word not in known} == set()


def commands_named(text: str) -> list[str]:
    """Commands in a sentence's code and in blocks of code."""
    blocks = "\n".join(re.findall(r"```.*?```", text, re.DOTALL))
    in_blocks = re.findall(r"^(?:\$ )?lore-retriever ([a-z][a-z-]+)", blocks, re.MULTILINE)
    return in_blocks + re.findall(r"`lore-retriever ([a-z][a-z-]+)", text)
