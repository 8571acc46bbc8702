"""A German memory, asked for in French: a chat model brings both into English on their way in.

Needs: pip install "lore-retriever[quickstart,langchain]"
"""

from tempfile import TemporaryDirectory

from langchain_core.language_models import FakeListChatModel

from lore_retriever import MemoryStore
from lore_retriever.language import LangChainTranslator

# A scripted model, so that this runs anywhere. A real one: model = init_chat_model("anthropic:claude-sonnet-4-5")
model = FakeListChatModel(
    responses=[
        "The spare key hangs behind the picture in the hall.",
        "where is the spare key?",
    ]
)

with (
    TemporaryDirectory() as folder,
    MemoryStore.embedded(folder, canonicalizer=LangChainTranslator(model)) as store,
):
    ana = store.as_user(org="acme", user="ana")
    ana.remember("Der Ersatzschlüssel hängt hinter dem Bild im Flur.", id="key")
    ana.remember("The cafeteria closes at three, and the kitchen is free from then on.", id="lunch")

    found = ana.recall("où est la clé de secours ?")
    print("searched:", found.queries[0])
    print("found:", found.hits[0].text)
    memory = ana.get(found.hits[0].id)
    print(f"as it was given ({memory.language}):", memory.content_original)

# searched: where is the spare key?
# found: The spare key hangs behind the picture in the hall.
# as it was given (de): Der Ersatzschlüssel hängt hinter dem Bild im Flur.
