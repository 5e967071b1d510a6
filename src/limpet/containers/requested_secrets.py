"""The `domain_secrets` of a request, checked and held against what the operator allows. Pure; no error shows a value.

Two forms: OpenAI's `{domain, name, value}`, whose value travels with the request, and `{placeholder, allowed_domains}`, which names a
secret of the operator's (docs/egress.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from limpet.containers.secret_names import name_problem
from limpet.containers.settings import DomainSecret
from limpet.core.errors import RequestInvalid
from limpet.core.secret import Secret
from limpet.egress.host_patterns import outside, parse_pattern, parse_patterns
from limpet.egress.policy import SERVICES
from limpet.egress.secrets import new_placeholder, sendable

MOST_SECRETS = 50
MOST_VALUES = 16_384  # of all values together: what is printed and sent back is searched for each of them
REJECTED = "domain_secrets_rejected"
_FORMS = (
    'A secret is {"domain": "api.example.com", "name": "TOKEN", "value": "…"}, or of the operator\'s '
    '{"placeholder": "TOKEN", "allowed_domains": ["api.example.com"]}.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedSecret:
    """A secret that a request was given: the variable `name` holds `placeholder`, which becomes the value towards `hosts` (patterns).
    `value` is None where it is the operator's, by that name."""

    name: str
    placeholder: str
    hosts: tuple[str, ...]
    value: Secret | None = field(default=None, repr=False)
    in_query: bool = False
    in_body: bool = False


def granted_secrets(
    asked: object, *, known: Mapping[str, DomainSecret], admits: Callable[[str], bool], param: str
) -> tuple[GrantedSecret, ...]:
    """What these entries of a request are given. `known` are the operator's secrets, `admits` whether its list of hosts admits one
    (ValueError for what is none). Raises RequestInvalid."""
    if asked is None:
        return ()
    if not isinstance(asked, list) or len(asked) > MOST_SECRETS:
        raise RequestInvalid(f"Write it as a list of at most {MOST_SECRETS} secrets.", param=param, code=REJECTED)
    given = [_given(each, known, admits, f"{param}[{index}]") for index, each in enumerate(asked)]
    _refuse_doubles(given, param)
    if sum(len(secret.value.reveal().encode()) for secret in given if secret.value is not None) > MOST_VALUES:
        raise RequestInvalid(
            f"The values are longer than {MOST_VALUES} bytes together. Give fewer.", param=param, code=REJECTED
        )
    # One variable holds one placeholder, whatever it stands for at which host.
    placeholders = {secret.name: secret.placeholder for secret in given}
    return tuple(replace(secret, placeholder=placeholders[secret.name]) for secret in given)


def _given(
    asked: object, known: Mapping[str, DomainSecret], admits: Callable[[str], bool], param: str
) -> GrantedSecret:
    match asked:
        case {"placeholder": str(name), **rest}:
            return _reference(name, rest.get("allowed_domains"), known, param)
        case {"domain": str(domain), "name": str(name), "value": str(value), **rest}:
            return _inline(domain, name, value, rest, admits, param)
    raise RequestInvalid(_FORMS, param=param, code=REJECTED)


def _reference(name: str, asked: object, known: Mapping[str, DomainSecret], param: str) -> GrantedSecret:
    if name not in known:
        names = ", ".join(known) or "none"
        raise RequestInvalid(
            f"This gateway has no secret {name[:128]!r}; it has: {names[:1000]}.",
            param=f"{param}.placeholder",
            code=REJECTED,
        )
    allowed = known[name].allowed_hosts
    if asked is not None and (not isinstance(asked, list) or not all(isinstance(each, str) for each in asked)):
        raise RequestInvalid("Write it as a list of hosts.", param=f"{param}.allowed_domains", code=REJECTED)
    hosts = tuple(dict.fromkeys(asked or allowed))
    for index, host in enumerate(hosts):
        place = f"{param}.allowed_domains[{index}]"
        if not _is_within(host, allowed, place):
            raise RequestInvalid(
                f"The secret {name} may not be sent to {host[:253]}. Its hosts: {', '.join(allowed)[:1000]}.",
                param=place,
                code=REJECTED,
            )
    return GrantedSecret(name=name, placeholder=new_placeholder().decode(), hosts=hosts)


def _is_within(host: str, allowed: Sequence[str], param: str) -> bool:
    try:
        return not outside([parse_pattern(host)], parse_patterns(allowed))
    except ValueError as error:
        raise RequestInvalid(f"{error}.", param=param, code=REJECTED) from error


def _inline(
    domain: str, name: str, value: str, rest: Mapping[Any, Any], admits: Callable[[str], bool], param: str
) -> GrantedSecret:
    if problem := name_problem(name):
        raise RequestInvalid(f"{name[:128]!r} {problem}.", param=f"{param}.name", code=REJECTED)
    try:
        is_admitted = admits(str(parse_pattern(domain))) and not f".{domain}".endswith(f".{SERVICES}")
    except ValueError as error:
        raise RequestInvalid(f"{error}.", param=f"{param}.domain", code=REJECTED) from error
    if not is_admitted:
        raise RequestInvalid(
            f"The secret {name} is for {domain[:253]}, which may not be reached from this gateway's containers.",
            param=f"{param}.domain",
            code=REJECTED,
        )
    for option in ("in_query", "in_body"):
        if not isinstance(rest.get(option, False), bool):
            raise RequestInvalid("It is true or false.", param=f"{param}.{option}", code=REJECTED)
    _check_value(name, value, f"{param}.value")
    return GrantedSecret(
        name=name,
        placeholder=new_placeholder().decode(),
        hosts=(domain,),
        value=Secret(value),
        in_query=rest.get("in_query", False),
        in_body=rest.get("in_body", False),
    )


def _check_value(name: str, value: str, param: str) -> None:
    try:
        value.encode()
        sendable(name, Secret(value))
        return
    except UnicodeEncodeError:
        problem = f"The secret {name} is no text that can be sent."
    except ValueError as error:
        problem = f"{error}.".replace("the", "The", 1)
    raise RequestInvalid(problem, param=param, code=REJECTED) from None


def _refuse_doubles(given: Sequence[GrantedSecret], param: str) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, secret in enumerate(given):
        for host in secret.hosts:
            if (secret.name, host) in seen:
                raise RequestInvalid(
                    f"The secret {secret.name} for {host} is given twice.", param=f"{param}[{index}]", code=REJECTED
                )
            seen[secret.name, host] = index
