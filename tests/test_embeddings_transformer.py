"""E5Embedder and SentenceTransformerEmbedder, on a BERT with random weights that is built here.

The weights of e5-large-v2 are 1.3 GB and not part of a test run; the architecture, the tokenizer's kind, the
prefixes, the pooling and the code path are the same.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import string
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizerFast

from lore_retriever.embeddings import E5Embedder, EmbeddingSpace, SentenceTransformerEmbedder, Vector
from lore_retriever.embeddings import transformer as module
from lore_retriever.errors import InvalidInput
from lore_retriever.windows import split_windows

# The model is tiny; threads that wait for each other would take longest of all.
torch.set_num_threads(1)

READS = 128
DIMENSIONS = 32
TEXTS = [
    "The gateway restarts at night.",
    "It rains.",
    "",
    "ERR-4471 came back after the deployment of the payment service on the second of May, nobody knows why.",
]


def _vocabulary() -> list[str]:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["query", "passage", "the", "gateway", "restart", "night", "rain", "it", "at", "after", "payment"]
    pieces = [*string.ascii_lowercase, *string.digits]
    return [*special, *words, *pieces, *(f"##{piece}" for piece in pieces), *string.punctuation]


def _saved_bert(folder: Path, seed: int) -> Path:
    vocabulary = folder / "vocab.txt"
    folder.mkdir()
    vocabulary.write_text("\n".join(_vocabulary()), encoding="utf-8")
    BertTokenizerFast(str(vocabulary), model_max_length=READS).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(_vocabulary()),
        hidden_size=DIMENSIONS,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=READS,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that reads 128 tokens and gives 32 numbers."""
    return _saved_bert(tmp_path_factory.mktemp("models") / "tiny-e5", seed=7)


@pytest.fixture(scope="module")
def e5(bert: Path) -> E5Embedder:
    return E5Embedder(bert, device="cpu")


def forward_pass(folder: Path, texts: Sequence[str]) -> torch.Tensor:
    """What the model's authors publish: mean of the last layer over the mask, at unit length, truncated."""
    tokens = AutoTokenizer.from_pretrained(folder)(
        list(texts), padding=True, truncation=True, max_length=READS, return_tensors="pt"
    )
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).float()
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def distance(vectors: Sequence[Vector], expected: torch.Tensor) -> float:
    return float((torch.tensor(vectors) - expected).abs().max())


# --- E5Embedder


def test_texts_are_embedded_as_a_hand_written_forward_pass_does(e5: E5Embedder, bert: Path) -> None:
    expected = forward_pass(bert, [f"passage: {text}" for text in TEXTS])
    assert distance(e5.embed_texts(TEXTS), expected) < 1e-5


def test_queries_are_embedded_as_a_hand_written_forward_pass_does(e5: E5Embedder, bert: Path) -> None:
    expected = forward_pass(bert, [f"query: {text}" for text in TEXTS])
    assert distance(e5.embed_queries(TEXTS), expected) < 1e-5
    assert distance(e5.embed_texts(TEXTS), expected) > 1e-2


def test_vectors_have_unit_length(e5: E5Embedder) -> None:
    for vector in [*e5.embed_texts(TEXTS), *e5.embed_queries(TEXTS)]:
        assert len(vector) == DIMENSIONS
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)


def test_a_batch_gives_what_single_texts_give(e5: E5Embedder, bert: Path) -> None:
    whole = torch.tensor(e5.embed_texts(TEXTS))
    assert distance([e5.embed_texts([text])[0] for text in TEXTS], whole) < 1e-5
    assert distance(E5Embedder(bert, device="cpu", batch_size=2).embed_texts(TEXTS), whole) < 1e-5


def test_no_texts_give_no_vectors(e5: E5Embedder) -> None:
    assert e5.embed_texts([]) == []


def test_tokens_are_counted_with_prefix_and_special_tokens(e5: E5Embedder) -> None:
    # [CLS] passage : the gateway [SEP]
    assert e5.count_tokens("the gateway") == 6
    # A word of more than 100 letters is one unknown token to this kind of tokenizer.
    assert e5.count_tokens("x" * 100) == 104


def test_windows_fit_the_model_so_that_nothing_is_truncated(e5: E5Embedder) -> None:
    text = "The gateway restarts at night. " * 40 + " ".join(["z" * 90] * 4) + "漢字" * 300
    windows = split_windows(text, max_tokens=e5.max_tokens, count_tokens=e5.count_tokens)
    assert e5.max_tokens == READS
    assert max(e5.count_tokens(text[window.start : window.end]) for window in windows) <= READS


BODY = ("The gateway restarts at night, the payment service waits for it. " * 40)[:2_400]
TAIL = (" A zebra quietly juggles six boxes of lime jam." * 10)[:459]


def test_one_vector_does_not_see_459_characters_after_2400_but_the_windows_do(e5: E5Embedder, bert: Path) -> None:
    alone, extended = SentenceTransformer(str(bert), device="cpu").encode(
        [f"passage: {BODY}", f"passage: {BODY}{TAIL}"], normalize_embeddings=True, show_progress_bar=False
    )
    assert f"{cosine(alone.tolist(), extended.tolist()):.6f}" == "1.000000"

    def window_vectors(text: str) -> list[Vector]:
        windows = split_windows(text, max_tokens=e5.max_tokens, count_tokens=e5.count_tokens)
        return e5.embed_texts([text[window.start : window.end] for window in windows])

    before, after = window_vectors(BODY), window_vectors(BODY + TAIL)
    assert len(after) > len(before)
    assert max(cosine(after[-1], vector) for vector in before) < 0.99


def test_a_text_that_reaches_the_embedder_uncut_is_averaged_instead_of_truncated(e5: E5Embedder) -> None:
    alone, extended = e5.embed_texts([BODY, BODY + TAIL])
    assert cosine(alone, extended) < 0.9999
    assert math.hypot(*extended) == pytest.approx(1.0)


def test_a_folder_with_other_pooling_is_refused(bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cls"
    SentenceTransformer(str(bert), device="cpu").save(str(folder))
    config = folder / "1_Pooling" / "config.json"
    settings = json.loads(config.read_text())
    settings.update({"pooling_mode": "cls"} if "pooling_mode" in settings else {"pooling_mode_cls_token": True})
    if "pooling_mode_mean_tokens" in settings:
        settings["pooling_mode_mean_tokens"] = False
    config.write_text(json.dumps(settings))
    with pytest.raises(InvalidInput, match="pools by 'cls'"):
        _ = E5Embedder(folder, device="cpu").space


def test_the_reference_model_is_pinned_and_known_without_its_weights() -> None:
    space = E5Embedder().space
    assert (space.model, space.dimensions) == ("intfloat/e5-large-v2", 1024)
    assert len(space.revision) == 40


def test_a_folder_can_stand_for_a_model_of_the_hub(bert: Path) -> None:
    embedder = E5Embedder(bert, device="cpu", name="intfloat/e5-large-v2", revision="b322e09")
    assert embedder.space == EmbeddingSpace("intfloat/e5-large-v2", "b322e09", DIMENSIONS)


def test_two_folders_have_one_space_only_with_the_same_weights(bert: Path, tmp_path: Path) -> None:
    same = _saved_bert(tmp_path / "tiny-e5", seed=7)
    (tmp_path / "more").mkdir()
    other = _saved_bert(tmp_path / "more" / "tiny-e5", seed=8)
    spaces = [E5Embedder(folder, device="cpu").space for folder in (bert, same, other)]
    assert spaces[0] == spaces[1]
    assert spaces[0].model == spaces[2].model == "tiny-e5"
    assert spaces[0].revision != spaces[2].revision


def test_half_precision_gives_nearly_the_same_unit_vectors(bert: Path, e5: E5Embedder) -> None:
    half = E5Embedder(bert, device="cpu", half_precision=True)
    for vector, whole in zip(half.embed_texts(TEXTS), e5.embed_texts(TEXTS), strict=True):
        assert cosine(vector, whole) > 0.999
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)
    assert half.space == e5.space


def test_threads_share_the_model(e5: E5Embedder) -> None:
    expected = torch.tensor(e5.embed_texts(TEXTS))
    found: list[list[Vector]] = []

    def work() -> None:
        for _ in range(5):
            e5.count_tokens(BODY)
            e5.embed_queries(["the gateway"])
            found.append(e5.embed_texts(TEXTS))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert max(distance(vectors, expected) for vectors in found) < 1e-5


# --- SentenceTransformerEmbedder


def test_a_model_is_used_with_its_own_prompts(bert: Path, e5: E5Embedder, tmp_path: Path) -> None:
    folder = tmp_path / "prompted"
    prompts = {"query": "query: ", "document": "passage: "}
    SentenceTransformer(str(bert), device="cpu", prompts=prompts).save(str(folder))
    embedder = SentenceTransformerEmbedder(folder, device="cpu")
    assert distance(embedder.embed_queries(TEXTS), torch.tensor(e5.embed_queries(TEXTS))) < 1e-5
    assert distance(embedder.embed_texts(TEXTS), torch.tensor(e5.embed_texts(TEXTS))) < 1e-5
    assert embedder.count_tokens("the gateway") == 6


def test_a_model_without_prompts_gets_none(bert: Path) -> None:
    embedder = SentenceTransformerEmbedder(bert, device="cpu")
    assert distance(embedder.embed_texts(TEXTS), forward_pass(bert, TEXTS)) < 1e-5
    assert embedder.count_tokens("the gateway") == 4


def test_prompts_of_ones_own_replace_the_models_and_mark_the_revision(bert: Path, e5: E5Embedder) -> None:
    embedder = SentenceTransformerEmbedder(bert, device="cpu", query_prompt="query: ", text_prompt="passage: ")
    plain = SentenceTransformerEmbedder(bert, device="cpu")
    assert distance(embedder.embed_texts(TEXTS), torch.tensor(e5.embed_texts(TEXTS))) < 1e-5
    assert embedder.space.revision.startswith(f"{plain.space.revision}+prompts-")


def test_a_loaded_model_is_taken_as_it_is(bert: Path) -> None:
    model = SentenceTransformer(str(bert), device="cpu")
    embedder = SentenceTransformerEmbedder(model, name="mine", revision="3")
    assert embedder.space == EmbeddingSpace("mine", "3", DIMENSIONS)
    assert distance(embedder.embed_texts(TEXTS), forward_pass(bert, TEXTS)) < 1e-5
    assert SentenceTransformerEmbedder(model).space.model == "tiny-e5"


def test_windows_may_be_smaller_than_the_model_reads_but_not_larger(bert: Path) -> None:
    assert SentenceTransformerEmbedder(bert, device="cpu", max_tokens=64).max_tokens == 64
    with pytest.raises(InvalidInput, match="max_tokens is 129, this model reads 128"):
        _ = SentenceTransformerEmbedder(bert, device="cpu", max_tokens=129).max_tokens


def test_a_batch_of_no_texts_is_refused(bert: Path) -> None:
    with pytest.raises(InvalidInput, match="batch_size is 0"):
        SentenceTransformerEmbedder(bert, batch_size=0)


def test_without_sentence_transformers_the_error_names_the_extra_and_the_alternative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    for embedder in (E5Embedder, lambda: SentenceTransformerEmbedder("any")):
        with pytest.raises(ImportError, match=r"lore-retriever\[e5\].*OfflineEmbedder.*lore-retriever\[offline\]"):
            embedder()


# --- the hub

_WITHOUT_A_HUB = """
import sys, time
from lore_retriever.embeddings import E5Embedder, SentenceTransformerEmbedder
cached = SentenceTransformerEmbedder("acme/tiny", device="cpu")
print(cached.space)
began = time.monotonic()
for make in (lambda: SentenceTransformerEmbedder("acme/nope"), lambda: E5Embedder("acme/nope", revision="main")):
    try:
        make().embed_queries(["x"])
    except Exception as error:
        print(type(error).__name__, error)
print(time.monotonic() - began < 5)
"""


def test_without_a_hub_what_was_loaded_before_serves_and_what_was_not_is_named_in_seconds(
    bert: Path, tmp_path: Path
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "hub" / "models--acme--tiny"
    shutil.copytree(bert, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    nobody = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_DISABLE_XET": "1"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    environment |= nobody | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_A_HUB], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    space, *failures, is_quick = done.stdout.splitlines()
    assert space.startswith("acme/tiny@")
    assert len(failures) == 2
    for failure in failures:
        assert failure.startswith("EmbeddingFailed the model 'acme/nope' is not on this machine, and the hub")
        assert "--model offline" in failure
    assert is_quick == "True"
