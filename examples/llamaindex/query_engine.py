"""A query engine that answers from Markdown files, with the section it rests on.

Needs: pip install "lore-retriever[quickstart,llamaindex]"
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llama_index.core import SimpleDirectoryReader
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.query_engine import RetrieverQueryEngine

from lore_retriever import MemoryStore
from lore_retriever.llamaindex import LoreRetriever, LoreVectorStore

FILES = {
    "gateway.md": """# Gateway

## Restart
The payment gateway restarts every night at 02:00 UTC to pick up new certificates.

## ERR-4471
ERR-4471 means that the gateway's lease ran out; a restart renews it.
""",
    "deploys.md": "# Deploys\n\n## Freeze\nDeploys are frozen from Friday noon to Monday morning.\n",
}


class ScriptedLLM(MockLLM):
    """Says one thing, so that this runs anywhere. A real one: llm = Anthropic(model="claude-sonnet-4-5")."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="The gateway's lease ran out. Restart it.")


with TemporaryDirectory() as folder, MemoryStore.embedded(f"{folder}/postgres") as store:
    pages = Path(folder, "pages")
    pages.mkdir()
    for name, text in FILES.items():
        (pages / name).write_text(text, encoding="utf-8")

    ana = store.as_user(org="acme", user="ana")
    sections = MarkdownNodeParser().get_nodes_from_documents(SimpleDirectoryReader(str(pages)).load_data())
    LoreVectorStore(memories=ana).add(sections)

    engine = RetrieverQueryEngine.from_args(LoreRetriever(memories=ana, similarity_top_k=2), llm=ScriptedLLM())
    response = engine.query("Why does the gateway say ERR-4471, and what helps?")
    print(response)
    for source in response.source_nodes:
        ranks = {leg: source.metadata[f"lore_{leg}_rank"] for leg in ("vector", "exact", "relaxed")}
        print(f"{source.metadata['file_name']} {source.text.splitlines()[0]} {ranks}")

# The gateway's lease ran out. Restart it.
# gateway.md ## ERR-4471 {'vector': 1, 'exact': 1, 'relaxed': 1}
# gateway.md # Gateway {'vector': 2, 'exact': None, 'relaxed': None}
