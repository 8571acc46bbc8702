"""Remember, recall, and see why: pip install "lore-retriever[quickstart]". Nothing is downloaded while it runs."""

from tempfile import TemporaryDirectory

from lore_retriever import MemoryStore

with TemporaryDirectory() as folder, MemoryStore.embedded(f"{folder}/postgres") as store:
    ana = store.as_user(org="acme", user="ana")
    ana.remember("ERR-4471 means that a weighbridge reading is older than 90 seconds.", id="err-4471", kind="gotcha")
    ana.remember("Nordlicht Freight is the largest customer: 31 % of all containers.", id="nordlicht")
    ana.remember("Kubernetes is upgraded on the second Wednesday of a month.", id="upgrades", aliases=["k8s"])
    for query in ("what does ERR-4471 mean?", "who is our biggest client?", "k8s"):
        hit = ana.recall(query).hits[0]
        ranks = {leg: match.rank for leg, match in hit.legs.items()}
        print(f"{query}\n  {hit.id}: {hit.text}\n  score {hit.score:.4f}, ranks {ranks}")

    print(ana.build_context("customers", max_tokens=120).text)

# what does ERR-4471 mean?
#   err-4471: ERR-4471 means that a weighbridge reading is older than 90 seconds.
#   score 0.0984, ranks {'vector': 1, 'exact': 1, 'relaxed': 1}
# who is our biggest client?
#   nordlicht: Nordlicht Freight is the largest customer: 31 % of all containers.
#   score 0.0164, ranks {'vector': 1}
# k8s
#   upgrades: Kubernetes is upgraded on the second Wednesday of a month.
#   score 0.0328, ranks {'vector': 1, 'alias': 1}
# … and a briefing on customers of at most 120 tokens, ready for a prompt.
