"""The mean vector of an embedding space, and the command that measures it.

Vectors of e5 models point into one narrow cone: almost every text has the same signs, so binary codes are
taken of `vector - centre`. It need not come from the texts that are searched, so known models ship one.

    python -m lore_retriever.embeddings.centre FILE... --per-file 150 --out centre.json

reads plain text, Markdown and JSONL files (field `text`), draws one window from each of `--per-file` texts of
every file, embeds them with `OfflineEmbedder` and writes the mean.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from lore_retriever.embeddings.base import Embedder, EmbeddingSpace, Vector
from lore_retriever.windows import split_windows

__all__ = ["mean_vector", "shipped_centre"]

_SHIPPED = {"intfloat/multilingual-e5-small": Path(__file__).with_name("multilingual-e5-small.centre.json")}


@cache
def shipped_centre(space: EmbeddingSpace) -> tuple[float, ...] | None:
    """The mean vector that ships with a known space, shape `(dimensions,)`; None for any other space."""
    path = _SHIPPED.get(space.model)
    if path is None:
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    known = (record["model"], record["revision"], len(record["centre"]))
    return tuple(record["centre"]) if known == (space.model, space.revision, space.dimensions) else None


def mean_vector(vectors: Iterable[Vector]) -> list[float]:
    """The mean of unit vectors, not scaled to unit length; shape `(dimensions,)`, empty for no vectors."""
    sums: list[float] = []
    count = 0
    for vector in vectors:
        sums = [total + number for total, number in zip(sums, vector, strict=True)] if sums else list(vector)
        count += 1
    return [total / count for total in sums]


def _texts_of(path: Path) -> list[str]:
    """The texts of a file: the field `text` of each line of a `.jsonl`, else the whole file."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".jsonl":
        return [content]
    return [json.loads(line)["text"] for line in content.splitlines() if line.strip()]


def _sampled_windows(paths: Sequence[Path], embedder: Embedder, *, per_file: int, seed: int) -> Iterator[str]:
    """One window from each of `per_file` texts of each file, the same ones for the same seed."""
    drawn = random.Random(seed)
    for path in paths:
        texts = [text for text in _texts_of(path) if text.strip()]
        for text in drawn.sample(texts, min(per_file, len(texts))):
            windows = split_windows(text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)
            window = drawn.choice(windows)
            yield text[window.start : window.end]


def measure_centre(paths: Sequence[Path], embedder: Embedder, *, per_file: int, seed: int) -> dict[str, object]:
    """The centre over a sample of the files' windows, with its space and the number of texts."""
    vectors: list[Vector] = []
    for text in _sampled_windows(paths, embedder, per_file=per_file, seed=seed):
        vectors.extend(embedder.embed_texts([text]))
        print(f"\r{len(vectors)} texts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    space = embedder.space
    return {
        "model": space.model,
        "revision": space.revision,
        "texts": len(vectors),
        "centre": [round(number, 6) for number in mean_vector(vectors)],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command; `arguments` default to the process's own."""
    from lore_retriever.embeddings.offline import OfflineEmbedder

    parser = argparse.ArgumentParser(description="Measure the mean vector of OfflineEmbedder's space.")
    parser.add_argument("files", nargs="+", type=Path, help="plain text, Markdown or JSONL with a field `text`")
    parser.add_argument("--per-file", type=int, default=150, help="texts drawn from each file (default 150)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the draw (default 7)")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    options = parser.parse_args(arguments)
    record = measure_centre(options.files, OfflineEmbedder(), per_file=options.per_file, seed=options.seed)
    options.out.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
