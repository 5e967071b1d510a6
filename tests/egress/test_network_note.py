"""What a model is told of what its box reaches."""

import pytest

from limpet.core.secret import Secret
from limpet.egress.network import place_secrets
from limpet.egress.network_note import NO_NETWORK, network_note
from limpet.egress.policy import EgressPolicy, read_policy
from limpet.egress.secrets import DomainSecret

VALUE = "hunter2hunter2"
SECRETS = place_secrets({"TOKEN": DomainSecret(value=Secret(VALUE), hosts=("api.example.com",))})


@pytest.mark.parametrize(
    "policy, says",
    [
        (None, [NO_NETWORK]),
        (EgressPolicy(), [NO_NETWORK]),
        (read_policy(["a.example.com", "*.example.org"]), ["HTTPS: a.example.com, *.example.org", "do not try again"]),
        (read_policy(["a.example.com"], ports=[8443]), ["also on the ports 8443"]),
        (read_policy([], services={"db": "127.0.0.1:5432"}), ["services of the host: db.host.internal:5432"]),
        (read_policy(["open"]), ["Every public host", "no SSH, no UDP"]),
        (read_policy([f"h{number}.example.com" for number in range(60)]), ["h49.example.com and 10 more"]),
    ],
)
def test_it_names_what_can_be_reached(policy: EgressPolicy | None, says: list[str]) -> None:
    note = network_note(policy)
    assert [text for text in says if text not in note] == []


def test_it_names_the_variables_of_secrets_and_their_hosts_and_no_value_or_placeholder() -> None:
    note = network_note(read_policy(["a.example.com"]), SECRETS)
    assert "$TOKEN stands for a secret: send it in a header to api.example.com" in note
    assert VALUE not in note
    assert SECRETS[0].placeholder.decode() not in note
