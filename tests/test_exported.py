"""The lines of an export, without a database: what is read, and what is refused by line, field and value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lore_retriever import InvalidInput
from lore_retriever.exported import FIRST_LINE, FORMAT, ExportedMemory, last_line, read_export, storable

DAY = "2025-01-01T00:00:00Z"
VOTE = {"voter": "ben", "useful": True, "created_at": DAY}
CHANGE = {"version": 1, "event": "updated", "changed_at": DAY}


def memory(**fields: Any) -> str:
    return json.dumps(
        {"memory": {"id": "m", "org": "acme", "owner": "ana", "content": "tide", "created_at": DAY} | fields}
    )


def names(*given: str, **fields: Any) -> str:
    return json.dumps({"names": {"org": "acme", "names": given} | fields})


def stored(*lines: str) -> list[Any]:
    """What an import would hand to the database."""
    return [
        storable(read, read, where) if isinstance(read, ExportedMemory) else read
        for where, read in read_export(lines, name="in.jsonl")
    ]


def by_hand(*lines: str) -> list[Any]:
    return stored(json.dumps({"format": FORMAT}), *lines)


class TestExtent:
    @pytest.mark.parametrize("cut", range(1, 4))
    def test_an_export_that_was_cut_off_between_two_lines_is_refused(self, cut: int) -> None:
        lines = [FIRST_LINE, memory(), names("PG", "Postgres"), last_line(1, 2)]
        assert len(stored(*lines)) == 2
        with pytest.raises(InvalidInput, match=r"the end of in\.jsonl comes after .* the export was cut off"):
            stored(*lines[:cut])

    @pytest.mark.parametrize("left_out", [1, 2])
    def test_an_export_that_lacks_a_line_is_refused(self, left_out: int) -> None:
        lines = [FIRST_LINE, memory(), names("PG", "Postgres"), last_line(1, 2)]
        del lines[left_out]
        with pytest.raises(
            InvalidInput, match=r'line 3 of in\.jsonl counts {"memories": 1, "names": 2}, and .* not whole'
        ):
            stored(*lines)

    def test_exports_may_follow_each_other(self) -> None:
        whole = [FIRST_LINE, memory(), last_line(1, 0)]
        assert len(stored(*whole, "", *whole)) == 2
        with pytest.raises(InvalidInput, match=r"line 3 of .* the export was cut off"):
            stored(*whole[:2], *whole)
        with pytest.raises(InvalidInput, match=r"line 4 of .* comes after the end"):
            stored(*whole, memory())

    def test_one_that_was_written_by_hand_needs_no_last_line(self) -> None:
        assert len(by_hand(memory())) == 1

    def test_a_mark_of_byte_order_is_passed_over(self) -> None:
        assert len(stored("\ufeff" + FIRST_LINE, memory(), last_line(1, 0))) == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[" * 200_000, "is JSON that cannot be read: it is nested too deep"),
        ('{"memory": ' + "9" * 5_000 + "}", "is JSON that cannot be read"),
        ('{"memory": {"id": "a", "id": "b"}}', "names 'id' twice"),
        ('{"memory": []}', "memory is .*; it holds an object"),
        ('{"names": null}', "names is .*; it holds an object"),
        ('{"memory": {}, "names": {}}', "an export holds"),
        ('{"format": "lore-retriever export 1", "more": 1}', "an export holds"),
        ('{"end": {"memories": 3}}', "counts .* not whole"),
        (memory(created_at=5), "created_at cannot be read: .*not a number"),
        (memory(created_at="2025"), "created_at cannot be read: .*not a number"),
        (memory(updated_at="0001-01-01T00:00:00Z"), "updated_at of line 2 of .* give a moment from"),
        (memory(content_original="a\0"), "content_original of line 2 .* NUL"),
        (memory(superseded_by="x" * 513), "superseded_by of line 2 .* 513 characters"),
        (memory(feedback=[VOTE | {"voter": "x\ud800"}]), "line 2 of .*(lone surrogate|feedback.0.voter)"),
        (memory(feedback=[VOTE | {"voter": "x" * 513}]), "the voter in a vote of line 2 .* 513 characters"),
        (memory(feedback=[VOTE | {"voter": ""}]), "the voter in a vote of line 2 .* holds nothing"),
        (memory(feedback=[VOTE | {"recall_id": "a\0"}]), "recall_id in a vote of line 2 .* NUL"),
        (memory(feedback=[VOTE, VOTE | {"useful": False}]), "line 2 of .* 'ben' votes twice in the recall ''"),
        (memory(feedback=[VOTE | {"created_at": 5}]), r"feedback\.0\.created_at cannot be read"),
        (memory(history=[CHANGE | {"content": "a\0"}]), "content of the history of line 2 .* NUL"),
        (memory(history=[CHANGE | {"superseded_by": "x" * 513}]), "superseded_by of the history of line 2"),
        (memory(history=[CHANGE | {"changed_at": "9999-12-31T23:00:00Z"}]), "changed_at in the history of line 2"),
        (names("a\0", "b"), "a name of line 2 .* NUL"),
        (names("a", ""), "a name of line 2 .* holds nothing"),
        (names(), "line 2 of .*: names is empty"),
        (names("a", "b", org="a\0"), "org of line 2 .* NUL"),
        (names("a", "b", owner="a\0"), "owner of line 2 .* NUL"),
    ],
)
def test_what_no_store_can_hold_is_refused_by_line_and_field(line: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        by_hand(line)
    assert "line 2 of in.jsonl" in str(refused.value)
    assert len(str(refused.value)) < 500


def test_names_of_nobody_and_groups_of_one_are_read() -> None:
    """A user who gave them may have been forgotten, and the others taken out."""
    [group] = by_hand(names("Postgres", owner=""))
    assert (group.names, group.owner) == (("Postgres",), "")
