"""What a view can do, each written once as a generator of steps (`lore_retriever.steps`)."""
