import pytest

from limpet.core.errors import NotFound
from limpet.upstreams.routing import ListedModel, Route, Router
from limpet.upstreams.script import ScriptUpstream

LIMPET = ScriptUpstream("limpet")
FIRST = ScriptUpstream("first")
SECOND = ScriptUpstream("second")
ANY = ScriptUpstream("any")
ROUTER = Router(
    [
        Route(LIMPET, ("limpet/script",)),
        Route(FIRST, ("gpt-*", "o3")),
        Route(SECOND, ("gpt-4o", "first/odd", "vendor/*")),
        Route(ANY),
    ]
)


@pytest.mark.parametrize(
    "name, provider, own_name",
    [
        ("limpet/script", LIMPET, "script"),
        ("gpt-4o", FIRST, "gpt-4o"),
        ("second/gpt-4o", SECOND, "gpt-4o"),
        ("first/gpt-9", FIRST, "gpt-9"),
        ("vendor/model", SECOND, "vendor/model"),
        ("second/vendor/model", SECOND, "vendor/model"),
        ("first/odd", SECOND, "first/odd"),
        ("any/thing/at:all", ANY, "thing/at:all"),
    ],
)
def test_a_name_finds_its_provider_and_that_providers_own_name(
    name: str, provider: ScriptUpstream, own_name: str
) -> None:
    chosen = ROUTER.find(name)
    assert chosen.upstream is provider
    assert chosen.model == own_name


@pytest.mark.parametrize("name", ["script", "GPT-4o", "first/llama", "limpet/", "/script", "", "limpet"])
def test_an_unknown_name_is_a_404_that_lists_what_there_is(name: str) -> None:
    with pytest.raises(NotFound) as refused:
        ROUTER.find(name)
    assert (refused.value.code, refused.value.param, refused.value.status) == ("model_not_found", "model", 404)
    assert str(refused.value) == (
        f"The model {name!r} does not exist here. "
        "Use one of: limpet/script, o3, second/gpt-4o, first/odd, gpt-*, vendor/*, any/…."
    )


def test_the_list_has_names_that_can_be_found_and_no_patterns() -> None:
    listed = ROUTER.models()
    assert listed == [
        ListedModel("limpet/script", "limpet"),
        ListedModel("o3", "first"),
        ListedModel("second/gpt-4o", "second"),
        ListedModel("first/odd", "second"),
    ]
    assert [ROUTER.find(model.id).upstream.name for model in listed] == [model.provider for model in listed]


def test_without_providers_the_message_says_what_to_do() -> None:
    with pytest.raises(NotFound, match=r"add a \[providers.NAME\] section"):
        Router([]).find("x")
