"""Windows: nothing is lost, nothing a reader sees as one is torn, limits hold, a short memory stays whole."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lore_retriever.errors import InvalidInput
from lore_retriever.limits import MAX_WINDOW_CHARS
from lore_retriever.windows import Window, split_windows

PARTS: dict[str, Sequence[str]] = {
    "prose": [
        "The gateway restarts at night. ",
        "Who knows why? ",
        "It does.\n\n",
        "A line\nthat wraps ",
        "e.g. ",
    ],
    "code": ["```python\n", "def f(x):\n", "    return x\n", "\n", "```\n", "~~~\n", "# comment. Text\n"],
    "markdown": [
        "# Title\n",
        "## Part\n\n",
        "| a | b |\n",
        "|---|---|\n",
        "- item\n",
        "1. first\n",
        "text\n\n",
    ],
    "cjk": ["本地部署方案。", "日本語の文章、", "한국어 문장입니다. ", "漢字" * 20, "」", "ไทยไม่มีช่องว่าง"],
    "emoji": ["👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☃️", " ", "🙂"],
    "endings": ["\r\n", "\r", "\n", "\r\n\r\n", "a", " ", "\u2028", "\t", "word. "],
    "marks": ["e\u0301", "a\u0323\u0302", "का", "ᄒ\u1161\u11ab", "o\u0308 ", "x"],
}


def no_tokens(text: str) -> int:
    return 0


def spans(content: str, *, max_tokens: int | None = None, count: Callable[[str], int] = no_tokens) -> list[str]:
    """The texts of the windows, after checking that they follow each other from 0 to the end."""
    windows = split_windows(content, max_tokens=max_tokens, count_tokens=count)
    assert [window.ordinal for window in windows] == list(range(len(windows)))
    assert [window.start for window in windows] == [0, *(window.end for window in windows[:-1])]
    assert windows[-1].end == len(content)
    assert all(window.start < window.end for window in windows)
    return [content[window.start : window.end] for window in windows]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Texts of one kind, from 1 to 40,000 characters: a few drawn parts, repeated."""
    parts = draw(st.sampled_from(sorted(PARTS)).map(PARTS.__getitem__))
    drawn = "".join(draw(st.lists(st.sampled_from(parts), min_size=1, max_size=60)))
    length = draw(st.sampled_from([1, 1_200, 1_201, 1_250, 2_400, 5_000, 40_000]))
    return (drawn * (length // len(drawn) + 1))[:length]


@settings(deadline=None)
@given(texts())
def test_every_character_lies_in_exactly_one_window_of_at_most_1200_characters(content: str) -> None:
    found = spans(content)
    assert "".join(found) == content
    assert max(map(len, found)) <= MAX_WINDOW_CHARS


@settings(deadline=None)
@given(texts(), st.integers(min_value=9, max_value=700))
def test_no_window_has_more_tokens_than_the_embedder_reads(content: str, max_tokens: int) -> None:
    def count(text: str) -> int:
        # Dense for what is not ASCII, as real tokenizers are, with two special tokens.
        return 2 + sum(3 if character > "\x7f" else 1 for character in text)

    found = spans(content, max_tokens=max_tokens, count=count)
    assert "".join(found) == content
    assert max(map(count, found)) <= max_tokens
    assert max(map(len, found)) <= MAX_WINDOW_CHARS


@settings(deadline=None)
@given(texts())
def test_no_window_starts_inside_what_a_reader_sees_as_one_character(content: str) -> None:
    for before, after in pairwise(spans(content)):
        assert (before[-1], after[0]) != ("\r", "\n")
        assert not unicodedata.category(after[0]).startswith("M")
        assert "\u200d" not in (before[-1], after[0])
        assert not "\U0001f3fb" <= after[0] <= "\U0001f3ff"
        assert not "\U000e0020" <= after[0] <= "\U000e007f"
        flags = len(before) - len(before.rstrip("".join(map(chr, range(0x1F1E6, 0x1F200)))))
        assert flags % 2 == 0 or not "\U0001f1e6" <= after[0] <= "\U0001f1ff"


@settings(deadline=None)
@given(st.text(min_size=1, max_size=3_000))
def test_any_text_is_covered(content: str) -> None:
    assert "".join(spans(content)) == content


@pytest.mark.parametrize("content", ["a", " ", "\n", "🙂", "x" * 1_200, "# A\n\n# B\n\n" * 100])
def test_a_text_of_at_most_1200_characters_that_fits_the_tokens_has_one_window(content: str) -> None:
    windows = split_windows(content, max_tokens=1_200, count_tokens=len)
    assert windows == [Window(ordinal=0, start=0, end=len(content))]


def test_a_short_text_that_is_dense_in_tokens_has_more_than_one_window() -> None:
    found = spans("漢字" * 400, max_tokens=512, count=len)
    assert len(found) == 2
    assert min(map(len, found)) > 350


def test_an_empty_text_has_no_window() -> None:
    assert split_windows("", max_tokens=None, count_tokens=len) == []


def test_windows_are_balanced_instead_of_leaving_a_scrap() -> None:
    lengths = [len(text) for text in spans("lorem ipsum dolor " * 69 + "12345678")]
    assert sum(lengths) == 1_250
    assert min(lengths) > 550


def test_one_word_of_40000_characters_is_cut_into_full_windows() -> None:
    assert len(spans("x" * 40_000)) == 34


def test_windows_start_at_headings() -> None:
    section = "## Part {}\n\n" + "A sentence of the part that says little. " * 20 + "\n\n"
    found = spans("".join(section.format(number) for number in range(12)))
    assert [text.split("\n")[0] for text in found] == [f"## Part {number}" for number in range(12)]


def test_no_window_ends_with_a_heading() -> None:
    filler = "Some words of filler that end here.\n\n"
    for count in range(20, 45):
        found = spans(filler * count + "## Diagnosis\n\n### Step 1\n\n" + filler * 40)
        assert not any(text.rstrip().endswith(("## Diagnosis", "### Step 1")) for text in found)


def test_a_code_block_that_fits_is_not_torn() -> None:
    block = "```shell\n" + "kubectl get pods --all\n\n" * 20 + "# not a heading\n```\n"
    prose = "The pods restart. Look at the logs first and then restart them. " * 3 + "\n\n"
    for lead in range(1, 10):
        found = spans(prose * lead + block + "\n" + prose * 6)
        assert sum(block in text for text in found) == 1


def test_paragraphs_are_kept_whole_where_windows_allow_it() -> None:
    paragraph = "It rained. Nobody went out, the cat slept, and the radio told of worse to come. " * 6
    found = spans((paragraph + "\n\n") * 12)
    assert all(text.endswith("\n\n") for text in found)


def test_sentences_are_kept_whole_inside_a_long_paragraph() -> None:
    found = spans("The quick brown fox, e.g. Rex 3.5, jumps over 2 dogs. " * 200)
    assert all(text.endswith("dogs. ") for text in found)


def test_lines_that_wrap_are_cut_after_a_sentence_rather_than_at_the_line_end() -> None:
    lines = (
        "The quick brown fox of the house jumps over the lazy dog at noon. It then sleeps\n"
        "until the evening, when the dog wakes up and looks for something to eat. The cat\n"
        "has seen nothing of it all. "
    )
    assert all(text.rstrip().endswith(("noon.", "eat.", "all.")) for text in spans(lines * 40))


def test_flags_are_kept_whole_in_a_long_run_of_them() -> None:
    found = spans("a" + "🇩🇪" * 2_000 + "b")
    assert all(text.strip("ab").count("🇩") == text.strip("ab").count("🇪") for text in found)
    assert all(text.lstrip("a").startswith("🇩") for text in found)


def test_chinese_sentences_are_kept_whole() -> None:
    assert all(text.endswith("。") for text in spans("我们在上海的网关昨天晚上重新启动了两次。" * 300))


def test_words_are_kept_whole_where_there_are_no_sentences() -> None:
    assert all(text.endswith("alpha ") for text in spans("alpha " * 2_000)[:-1])


def test_a_character_that_costs_more_than_the_token_window_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"'b' costs 9 tokens .* reads 8"):
        split_windows("aba", max_tokens=8, count_tokens=lambda text: 9 * text.count("b"))


def test_the_tokenizer_is_called_about_once_for_each_window() -> None:
    calls: list[str] = []

    def count(text: str) -> int:
        calls.append(text)
        return len(text) // 4

    found = spans("The gateway restarts at night. " * 1_000, max_tokens=512, count=count)
    assert calls == found


HOSTILE = {
    "dots": "." * 60_000,
    "quotes after dots": '."' * 30_000,
    "spaces": " " * 60_000,
    "commas": "," * 60_000,
    "hashes": "#" * 60_000,
    "fences": "```\n" * 15_000,
    "empty lines": "\r\n" * 30_000,
    "flags": "🇩🇪" * 30_000,
    "marks": "a" + "\u0301" * 59_999,
    "prose": "The gateway restarts at night, and nobody knows why. " * 1_150,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_60000_characters_are_cut_fast_whatever_they_are(name: str) -> None:
    content = HOSTILE[name]
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        split_windows(content, max_tokens=None, count_tokens=no_tokens)
        best = min(best, time.thread_time() - start)
    # 4 to 50 ms measured; a quadratic search takes seconds.
    assert best < 0.5
