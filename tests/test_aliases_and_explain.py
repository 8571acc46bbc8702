"""Aliases, explanations and the text-search configuration, over both stores."""

from __future__ import annotations

from typing import Any

import pytest

from lore_retriever import InvalidInput, NewMemory, NotFound
from lore_retriever.admin import StoreAdmin
from lore_retriever.explanation import Explanation


@pytest.fixture
def ana(either: Any) -> Any:
    return either.as_user("acme", "ana")


def found_by(recall: Any, leg: str) -> list[str]:
    return [hit.id for hit in recall.hits if leg in hit.legs]


def test_either_of_two_names_finds_the_other(ana: Any) -> None:
    ana.remember("The Kubernetes upgrade is planned for May.", id="long")
    ana.remember("k8s nodes are drained first.", id="short")
    assert found_by(ana.recall("k8s"), "alias") == []
    ana.add_alias("Kubernetes", "k8s")
    assert found_by(ana.recall("how do we drain k8s?"), "alias") == ["long"]
    hit = next(hit for hit in ana.recall("KUBERNETES nodes").hits if hit.id == "short")
    assert hit.legs["alias"].matched == "k8s"


def test_groups_that_share_a_name_become_one_and_names_can_be_taken_out(ana: Any) -> None:
    ana.add_alias("Kubernetes", "k8s")
    ana.add_alias("kube", "the cluster")
    assert len(ana.aliases()) == 2
    ana.add_alias("k8s", "kube")
    assert [set(group) for group in ana.aliases()] == [{"Kubernetes", "k8s", "kube", "the cluster"}]
    ana.remove_alias("KUBE")
    assert [set(group) for group in ana.aliases()] == [{"Kubernetes", "k8s", "the cluster"}]
    with pytest.raises(NotFound, match="kube"):
        ana.remove_alias("kube")


def test_names_fold_case_accents_and_punctuation_and_may_have_several_words(ana: Any) -> None:
    ana.remember("José Ñandú signed the contract.", id="m")
    ana.add_alias("José Ñandú", "the big boss")
    assert found_by(ana.recall("what did The Big-Boss sign?"), "alias") == ["m"]
    ana.remember("the big boss likes tea", id="tea")
    assert "tea" in found_by(ana.recall("jose nandu"), "alias")


def test_a_name_in_a_script_without_spaces_acts_inside_a_sentence(ana: Any) -> None:
    ana.remember("Tokyo Tower is 333 metres high.", id="m")
    ana.add_alias("東京タワー", "Tokyo Tower")
    assert found_by(ana.recall("東京タワーの高さは"), "alias") == ["m"]


@pytest.mark.parametrize("names", [("one",), ("same", "same"), ("ok", "!!!"), ("ok", "a\x00b"), ("ok", "")])
def test_names_that_cannot_be_aliases_are_refused(ana: Any, names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        ana.add_alias(*names)
    assert ana.aliases() == []


def test_aliases_of_one_organisation_never_act_in_another(either: Any, ana: Any) -> None:
    gil = either.as_user("globex", "gil")
    ana.add_alias("Kubernetes", "k8s")
    gil.remember("Kubernetes is forbidden here.", id="g")
    assert found_by(gil.recall("k8s"), "alias") == []
    assert gil.aliases() == []
    assert "Kubernetes" not in str(gil.explain("k8s"))


def test_names_of_a_private_memory_act_for_its_owner_only(either: Any, ana: Any) -> None:
    ben = either.as_user("acme", "ben")
    ana.remember("shared note on the gateway", id="s", visibility="shared", aliases=("frontdoor",))
    ana.remember("private note on the vault", id="p", aliases=("strongroom",))
    assert found_by(ben.recall("frontdoor"), "alias") == ["s"]
    assert found_by(ben.recall("strongroom"), "alias") == []
    assert found_by(ana.recall("strongroom"), "alias") == ["p"]


def test_an_explanation_shows_what_every_leg_proposed_and_the_same_hits(ana: Any) -> None:
    ana.remember("ERR-4471 comes from the gateway Zephyrquux", id="a")
    ana.remember("the gateway is slow", id="b")
    explanation = ana.explain("why does ERR-4471 hit Zephyrqux")
    assert isinstance(explanation, Explanation)
    assert explanation.queries[0].identifiers == ("err-4471",)
    assert [proposal.id for proposal in explanation.leg("exact").proposals] == ["a"]
    near = [word for word in explanation.queries[0].words if word.is_near_miss]
    assert [(word.stem, word.asked) for word in near] == [("zephyrquux", "zephyrqux")]
    again = ana.recall("why does ERR-4471 hit Zephyrqux")
    assert [(hit.id, hit.relevance) for hit in explanation.recall.hits] == [
        (hit.id, hit.relevance) for hit in again.hits
    ]
    ranked = {(hit.id, leg): match.rank for hit in again.hits for leg, match in hit.legs.items()}
    proposed = {(p.id, leg.leg): p.rank for leg in explanation.legs for p in leg.proposals}
    assert ranked == proposed
    assert "FROM recall(" in explanation.sql


def test_a_result_explains_itself_and_shows_itself_escaped(either: Any, ana: Any) -> None:
    ana.remember("<script>alert('x')</script> gateway", id="<b>")
    recall = ana.recall("gateway")
    html = recall._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    explained = either._run(recall.explain())
    assert "&lt;b&gt;" in explained._repr_html_()
    assert explained.recall.hits[0].id == "<b>"


def test_german_words_are_found_once_the_text_is_rebuilt(either: Any, ana: Any, database: str) -> None:
    ana.remember("Die Häuser wurden verkauft.", id="h")
    assert found_by(ana.recall("Haus"), "relaxed") == []
    shown: list[tuple[int, int]] = []
    assert StoreAdmin.connect(database).rebuild_text("german+unaccent", progress=lambda *at: shown.append(at)) == 1
    assert shown == [(1, 1)]
    assert found_by(ana.recall("Haus"), "relaxed") == ["h"]
    ana.remember("Zwei Mäuse", id="later")
    assert found_by(ana.recall("Maus"), "relaxed") == ["later"]


def test_a_search_in_the_middle_of_a_rebuild_finds_old_and_new(ana: Any, admin_connection: Any) -> None:
    ana.remember_many([NewMemory(content="running foxes", id="old"), NewMemory(content="running hares", id="new")])
    admin_connection.execute("UPDATE settings SET next_text_config = 'simple'")
    admin_connection.execute("UPDATE memories SET text_config = 'simple' WHERE id = 'new'")
    assert set(found_by(ana.recall("running"), "exact")) == {"old", "new"}
    assert set(found_by(ana.recall("running"), "relaxed")) == {"old", "new"}


def test_an_unknown_configuration_is_refused_by_name(database: str) -> None:
    with pytest.raises(InvalidInput, match=r"'klingon'.*english"):
        StoreAdmin.connect(database).rebuild_text("klingon")
