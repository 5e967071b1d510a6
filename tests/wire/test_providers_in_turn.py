"""A conversation that the client keeps, and one that goes on with another provider: each is told it in its own form."""

import json

import pytest

from tests.support.gateway import Gateway
from tests.support.providers.turns import Reasoning
from tests.wire.asking import SHELL
from tests.wire.streams import items_of
from tests.wire.test_providers import ask, text_of
from tests.wire.voices import KINDS, Voice


def test_who_keeps_nothing_sends_the_whole_conversation_back_and_it_is_understood(
    speaking_gateway: Gateway, voice: Voice
) -> None:
    """A client without storage gives the output items back as they came: reasoning, calls, outputs and cited text."""
    voice.play((Reasoning("Hm."), voice.shell("echo x > made")), "It is in made.", "Yes.")
    asked = {"role": "user", "content": "go"}
    first = ask(speaking_gateway, voice, store=False, input=[asked])
    again = [asked, *first["output"], {"role": "user", "content": "Sure?"}]
    second = ask(speaking_gateway, voice, store=False, input=again)

    assert text_of(second) == "Yes."
    assert voice.told[2].calls == voice.told[1].calls == [("call_shell_1", ["echo x > made"])]
    assert len(voice.told[2].results) == 1
    assert "It is in made." in json.dumps(voice.bodies[2])


# What is kept between two turns has one form: each provider once before and after itself, after the next one, and after none.
CHANGES = [
    *(("limpet", kind) for kind in KINDS),
    *((kind, kind) for kind in KINDS),
    *zip(KINDS, [*list(KINDS)[1:], *list(KINDS)[:1]], strict=True),
]


@pytest.mark.parametrize("before, after", CHANGES)
def test_a_conversation_may_change_its_provider(
    speaking_gateway: Gateway, voices: dict[str, Voice], before: str, after: str
) -> None:
    """What one provider said is told to the next in its own form; reasoning only goes back to who sealed it."""
    if before in voices:
        first_call = voices[before].shell("echo x > made", call_id="call_1")
        voices[before].play((Reasoning("Hm."), first_call), "It is made.")
    first = speaking_gateway.client().responses.create(
        model=voices[before].model if before in voices else "limpet/script",
        input="```sh\necho x > made\n```",
        tools=SHELL,
    )
    voice = voices[after]
    voice.play(voice.shell("cat made", call_id="call_2"), "x it is.")
    second = ask(speaking_gateway, voice, previous_response_id=first.id)

    assert items_of(second, "shell_call_output")[0]["output"][0]["stdout"] == "x\n"
    told = voice.told[0]
    assert [commands for _, commands in told.calls] == [["echo x > made"]]
    assert [call_id for call_id, _ in told.results] == [call_id for call_id, _ in told.calls]
    assert len(told.thoughts) == (before == after)
    assert [item for item in voice.bodies[0].get("input", ()) if item.get("id", "").startswith("sh")] == []
