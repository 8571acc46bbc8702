"""An agent that is briefed from memory, looks things up, and remembers for the next conversation.

Needs: pip install "lore-retriever[quickstart,agents]"
"""

from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from lore_retriever import MemoryStore, Scope
from lore_retriever.langchain import LoreMemoryMiddleware


class ScriptedModel(GenericFakeChatModel):
    """Says its lines whatever it is asked, so that this runs anywhere."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self


def use(tool: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": tool, "type": "tool_call"}])


SCRIPT = [
    use("recall", query=["gateway restart schedule", "nightly maintenance"]),
    use("remember", content="Ana prefers the gateway restart at 04:00 UTC.", kind="preference"),
    AIMessage("It restarts at 02:00 UTC; I noted that you would rather have it at 04:00."),
    AIMessage("At 04:00 UTC, as you asked last time."),
]
model = ScriptedModel(messages=iter(SCRIPT))  # a real one: model = "anthropic:claude-sonnet-4-5"

with TemporaryDirectory() as folder, MemoryStore.embedded(folder) as store:
    store.as_user("acme", "ana").remember("The payment gateway restarts every night at 02:00 UTC.", kind="runbook")

    agent = create_agent(
        model,
        system_prompt="You are the on-call assistant.",
        middleware=[LoreMemoryMiddleware(store, remember=True, written_as={"agent": "on-call"})],
        context_schema=Scope,
    )
    ana = Scope(org="acme", user="ana")  # from your own login; a model cannot choose it

    told = "When does the gateway restart? I would rather have it at four."
    for message in agent.invoke({"messages": [("user", told)]}, context=ana)["messages"][1:]:
        calls = [call["name"] for call in getattr(message, "tool_calls", [])]
        print(f"{message.type}: {calls or message.text.splitlines()[0].partition(' as ')[0]}")

    # Another conversation: nothing is left of the first one but what was remembered.
    print(agent.invoke({"messages": [("user", "When should it restart?")]}, context=ana)["messages"][-1].text)
    print([memory.content for memory in store.as_user("acme", "ana").list(kind="preference")])

# ai: ['recall']
# tool: 1 memory for: gateway restart schedule | nightly maintenance
# ai: ['remember']
# tool: Saved
# ai: It restarts at 02:00 UTC; I noted that you would rather have it at 04:00.
# At 04:00 UTC, as you asked last time.
# ['Ana prefers the gateway restart at 04:00 UTC.']
