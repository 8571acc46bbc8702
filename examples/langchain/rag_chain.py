"""A chain that answers from memory and cites it.

Needs: pip install "lore-retriever[quickstart,langchain]"
"""

from tempfile import TemporaryDirectory

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from lore_retriever import MemoryStore
from lore_retriever.langchain import LoreRetriever, LoreVectorStore

NOTES = {
    "gw-restart": "The payment gateway restarts every night at 02:00 UTC to pick up new certificates.",
    "gw-errors": "ERR-4471 from the gateway means that its lease ran out; restarting it renews the lease.",
    "deploys": "Deploys are frozen from Friday noon to Monday morning.",
    "lunch": "The cafeteria closes at three.",
}

# A scripted model, so that this runs anywhere. A real one: model = init_chat_model("anthropic:claude-sonnet-4-5")
model = FakeListChatModel(responses=["Its lease ran out. Restart the gateway [gw-errors]."])

prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer from these notes and cite their ids in brackets:\n\n{notes}"), ("human", "{question}")]
)


def as_notes(documents: list[Document]) -> str:
    return "\n\n".join(f"[{document.id}] {document.page_content}" for document in documents)


with TemporaryDirectory() as folder, MemoryStore.embedded(folder) as store:
    ana = store.as_user(org="acme", user="ana")
    LoreVectorStore(memories=ana).add_texts(list(NOTES.values()), ids=list(NOTES))

    retriever = LoreRetriever(memories=ana, k=2)
    chain = {"notes": retriever | as_notes, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

    question = "why did ERR-4471 come back after the deploy?"
    for document in retriever.invoke(question):
        said = document.metadata  # rank and measure of every leg, score, excerpt: all under lore_…
        print(f"{said['lore_rank']}. {document.id}", "by its identifier" if said["lore_exact_rank"] else "by meaning")
    print(chain.invoke(question))

# 1. gw-errors by its identifier
# 2. deploys by meaning
# Its lease ran out. Restart the gateway [gw-errors].
