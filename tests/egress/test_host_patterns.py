"""Patterns of hosts, the inclusion of a request's in the operator's, and the decision on hostile authorities."""

import pytest

from limpet.egress.host_patterns import outside, parse_pattern, parse_patterns
from limpet.egress.policy import Admitted, Reason, Refused, read_policy
from limpet.egress.refusals import response, sentence, tunnel_response

HOSTILE = [
    "127.0.0.1", "2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "0x7f.1", "[::1]", "::1", "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]", "169.254.169.254", "1.1.1.1", "8.8.8.8.", "①②⑦.⓪.⓪.①", "127。0。0。1", "localhost", "localhost.",
    "metadata.google.internal", "evil.example", "api.good.example.evil.example", "apigood.example", "xapi.good.example",
    "good.example", "api.good.example.", "api.good.example..", ".api.good.example", "api..good.example", "api.good.example@evil.example",
    "evil.example@api.good.example", "api.good.example/evil", "api.good.example?x", "api.good.example#x", "api.good.example\\x",
    "api.good.example\x00.evil.example", "api.good.example%2eevil", "api.good.example\r\nHost: x", " api.good.example", "api.good.example ",
    "*.good.example", "*", "", "a" * 64 + ".good.example", "a." * 130 + "good.example", "-.good.example", "api_good_example",
    "xn--.example", "api.good.example:443", "API.GOOD.EXAMPLE", "äpi.good.example", "api.good.exämple", "host.internal", "db.host.internal",
]  # fmt: skip
# The final dot and capital letters are other spellings of the one host that is allowed.
SAME = {"api.good.example.", "API.GOOD.EXAMPLE"}


def test_a_policy_of_one_host_admits_that_host_and_no_hostile_authority() -> None:
    policy = read_policy(["api.good.example"])
    admitted = {text for text in HOSTILE if isinstance(policy.decide(text, 443), Admitted)}
    assert len(HOSTILE) >= 40
    assert admitted == SAME


@pytest.mark.parametrize("port", [0, 1, 22, 25, 53, 8080, 8443, 65535, 65536, -1])
def test_other_ports_than_those_of_the_web_are_refused_unless_the_operator_adds_them(port: int) -> None:
    refused = read_policy(["api.good.example"]).decide("api.good.example", port)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.PORT_NOT_ALLOWED
    assert isinstance(read_policy(["api.good.example"], ports=[8443]).decide("api.good.example", 8443), Admitted)


def test_a_suffix_covers_what_is_below_it_and_not_itself() -> None:
    policy = read_policy(["*.good.example"])
    hosts = ["a.good.example", "a.b.good.example", "good.example", "xgood.example", "good.example.evil.example"]
    assert [policy.rule_for(host) for host in hosts] == ["*.good.example", "*.good.example", None, None, None]


@pytest.mark.parametrize(
    "text", ["*", "*.", "*.com", "**.a.example", "a.*.example", "*a.example", "https://a.example", "a.example/", "u@a.example",
             "1.1.1.1", "*.1.1.1.1", "[::1]", "a.example:443", "", ".", "a..example", "10.0.0.0/8"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|name|is not"):
        parse_pattern(text)


@pytest.mark.parametrize(
    "asked, allowed, left",
    [
        (["a.example"], ["a.example"], []),
        (["a.example"], [], ["a.example"]),
        (["x.a.example"], ["*.a.example"], []),
        (["*.x.a.example"], ["*.a.example"], []),
        (["*.a.example"], ["*.a.example"], []),
        (["*.a.example"], ["*.x.a.example"], ["*.a.example"]),
        (["*.a.example"], ["a.example", "x.a.example"], ["*.a.example"]),
        (["a.example"], ["*.a.example"], ["a.example"]),
        (["xa.example"], ["*.a.example"], ["xa.example"]),
        (["A.Example."], ["a.example"], []),
    ],
)
def test_a_request_must_lie_within_the_operators_patterns(
    asked: list[str], allowed: list[str], left: list[str]
) -> None:
    assert [str(each) for each in outside(parse_patterns(asked), parse_patterns(allowed))] == left


def test_a_name_of_the_configuration_stands_for_the_hosts_that_were_written_there() -> None:
    policy = read_policy(["packages:python"], sets={"packages:python": ["index.example", "*.files.example"]})
    assert policy.rule_for("index.example") == "index.example"
    with pytest.raises(ValueError, match="packages:node"):
        read_policy(["packages:node"], sets={"packages:python": ["index.example"]})


def test_an_open_policy_admits_every_name_and_no_address_and_no_service_of_the_host() -> None:
    policy = read_policy(["open"], services={"db": "127.0.0.1:5432"})
    assert isinstance(policy.decide("any.example", 443), Admitted)
    assert isinstance(policy.decide("db.host.internal", 5432), Admitted)
    refused = [("1.1.1.1", 443), ("other.host.internal", 443), ("db.host.internal", 443), ("db.host.internal", 5433)]
    assert [type(policy.decide(host, port)) for host, port in refused] == [Refused] * 4


def test_open_stands_alone() -> None:
    with pytest.raises(ValueError, match="stands alone"):
        read_policy(["open", "api.good.example"])


def test_a_refusal_is_one_response_whatever_the_host_held() -> None:
    policy = read_policy(["api.good.example"])
    for text in HOSTILE:
        decision = policy.decide(text, 443)
        if isinstance(decision, Refused):
            _, _, cut = response(decision).partition(b"\r\n\r\n")
            assert [line.decode("ascii").strip() for line in cut.splitlines()][1:] == [
                sentence(decision),
                "",
                sentence(decision),
            ]
            head, _, body = tunnel_response(decision).partition(b"\r\n\r\n")
            assert body.decode("ascii").strip() == sentence(decision)
            assert head.count(b"\r\n") == 5
            assert b"Do not retry" in head
            assert b"api.good.example" in head
