"""A sweep covers the grid, goes on where it broke off, and chooses by all suites alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.sweep import (
    Journal,
    Trial,
    choose,
    grid,
    leave_one_out,
    one_value,
    parse_knob,
    parse_knobs,
    point_name,
)


def trial(value: float, suite: str, mean: float) -> Trial:
    return Trial(
        point={"relaxed_coverage": value},
        suite=suite,
        data_hash="d",
        code_version="1",
        means={"R@10": mean, "nDCG@10": mean},
        per_query={"q": {"R@10": mean, "nDCG@10": mean}},
    )


def test_knobs_are_tried_in_every_combination() -> None:
    knobs = dict([parse_knob("rrf_k=20,60"), parse_knob("bm25_b=0.4,0.75")])
    assert grid(knobs) == [
        {"rrf_k": 20, "bm25_b": 0.4},
        {"rrf_k": 20, "bm25_b": 0.75},
        {"rrf_k": 60, "bm25_b": 0.4},
        {"rrf_k": 60, "bm25_b": 0.75},
    ]
    assert grid({}) == [{}]


@pytest.mark.parametrize("text", ["rrf_k", "rrf_k=", "rrf_k=many", "rrf_k=1;2"])
def test_knobs_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        parse_knob(text)


def test_a_knob_that_comes_twice_is_refused_rather_than_one_of_them_forgotten() -> None:
    with pytest.raises(InvalidInput, match=r"'rrf_k' is given twice.*rrf_k=1,2"):
        parse_knobs(["rrf_k=20", "bm25_b=0.4", "rrf_k=60"])


def test_only_a_sweep_takes_several_values_of_a_knob() -> None:
    assert one_value(parse_knobs(["rrf_k=20", "bm25_b=0.4"])) == {"rrf_k": 20, "bm25_b": 0.4}
    with pytest.raises(InvalidInput, match=r"'bm25_b' has 2 values.*--knob bm25_b=0.4.*eval sweep"):
        one_value(parse_knobs(["rrf_k=20", "bm25_b=0.4,0.75"]))


def test_a_point_has_one_name_whatever_the_order_of_its_knobs() -> None:
    assert point_name({"a": 1, "b": 2.5}) == point_name({"b": 2.5, "a": 1.0})
    assert point_name({"a": 1}) != point_name({"a": 2})


def test_a_journal_remembers_what_was_tried_with_the_same_data_and_code(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    Journal(path).add(trial(0.3, "s", 0.5))
    journal = Journal(path)
    assert journal.find({"relaxed_coverage": 0.3}, "s", "d", "1") == trial(0.3, "s", 0.5)
    assert journal.find({"relaxed_coverage": 0.4}, "s", "d", "1") is None
    assert journal.find({"relaxed_coverage": 0.3}, "s", "other", "1") is None
    assert journal.find({"relaxed_coverage": 0.3}, "s", "d", "2") is None


def test_a_line_cut_off_by_a_crash_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    Journal(path).add(trial(0.3, "s", 0.5))
    with path.open("a") as file:
        file.write(trial(0.4, "s", 0.6).model_dump_json()[:40])
    journal = Journal(path)
    assert len(journal.trials) == 1
    journal.add(trial(0.4, "s", 0.6))
    assert len(Journal(path).trials) == 2


def test_another_file_is_not_taken_for_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("groceries\n")
    with pytest.raises(InvalidInput, match="no journal"):
        Journal(path)


def test_the_choice_weighs_suites_alike_and_shows_what_hangs_on_one() -> None:
    trials = [
        trial(0.2, "a", 0.50),
        trial(0.2, "b", 0.50),
        trial(0.2, "c", 0.90),
        trial(0.3, "a", 0.60),
        trial(0.3, "b", 0.60),
        trial(0.3, "c", 0.60),
    ]
    assert choose(trials) == {"relaxed_coverage": 0.2}
    assert leave_one_out(trials) == {
        "a": {"relaxed_coverage": 0.2},
        "b": {"relaxed_coverage": 0.2},
        "c": {"relaxed_coverage": 0.3},
    }
    assert leave_one_out(trials[:1]) == {}


def test_a_point_that_was_not_tried_everywhere_cannot_be_chosen() -> None:
    assert choose([trial(0.2, "a", 0.9), trial(0.3, "a", 0.1), trial(0.3, "b", 0.1)]) == {"relaxed_coverage": 0.3}
    with pytest.raises(InvalidInput, match="finish"):
        choose([trial(0.2, "a", 0.9), trial(0.3, "b", 0.1)])
