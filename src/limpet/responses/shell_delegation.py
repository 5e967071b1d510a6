"""Who carries a response's shell calls out: a container of the gateway's, the client itself, or the provider's own container. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from limpet.core.errors import RequestInvalid
from limpet.responses.request import ParsedRequest
from limpet.responses.request_tools import ContainerAuto, Local, ShellTool
from limpet.responses.shell_description import LOCAL_SHELL
from limpet.responses.shell_runner import BareTool, ShellDelegation, ShellRunner
from limpet.upstreams import shell_function
from limpet.upstreams.upstream import Upstream

Json = dict[str, Any]


def applied(delegation: ShellDelegation, asked: ParsedRequest, upstream: Upstream) -> ParsedRequest:
    """The request with its shell as that: `shell` for the gateway and the client, whose has the environment `local`; else
    `provider_shell`. Raises RequestInvalid for what cannot be had here."""
    shell = asked.shell
    if shell is None:
        return asked
    is_bare = shell.environment is None
    if isinstance(shell.environment, Local) or (
        is_bare and "local" in (delegation.bare_tool, _BARE[delegation.runner])
    ):
        return _of_client(delegation, asked, shell, upstream)
    place = f"tools[{asked.shell_index}].environment"
    if delegation.runner == "client":
        raise RequestInvalid(
            "This gateway has no containers: its clients carry out shell calls themselves. "
            'Leave `environment` out, or send {"type": "local"}.',
            param=place,
            code="shell_environment_unsupported",
        )
    return _of_provider(asked, upstream, place) if delegation.runner == "provider" else asked


def _of_client(
    delegation: ShellDelegation, asked: ParsedRequest, shell: ShellTool, upstream: Upstream
) -> ParsedRequest:
    if delegation.client_item == "shell_call" or upstream.has_native_shell:
        return replace(asked, shell=shell.model_copy(update={"environment": shell.environment or Local(type="local")}))
    if any(tool.get("name") == shell_function.NAME for tool in asked.other_tools):
        raise shell_function.name_taken(upstream.name)
    function = shell_function.tool(LOCAL_SHELL)
    return replace(asked, shell=None, other_tools=(function, *asked.other_tools))


# What a shell tool without an environment is, where the operator has nothing else to offer.
_BARE: Mapping[ShellRunner, BareTool] = {"gateway": "hosted", "provider": "hosted", "client": "local"}


def _of_provider(asked: ParsedRequest, upstream: Upstream, place: str) -> ParsedRequest:
    if not upstream.has_native_shell:
        raise RequestInvalid(
            f'The provider {upstream.name} cannot run the hosted shell tool: with features.shell.type = "passthrough_openai" that is '
            "OpenAI's own. Choose a model of a provider of the type openai or azure_openai, or run the commands yourself: "
            '"environment": {"type": "local"}.',
            param=place.rpartition(".")[0],
            code="shell_passthrough_unsupported_provider",
        )
    assert asked.shell is not None
    if isinstance(asked.shell.environment, ContainerAuto):
        refuse_secret_references(asked.shell.environment.network_policy, f"{place}.network_policy")
    given = (asked.body.tools or [])[asked.shell_index]
    # OpenAI takes a shell without an environment for the client's.
    hosted = given if given.get("environment") is not None else {**given, "environment": {"type": "container_auto"}}
    return replace(asked, shell=None, provider_shell=hosted)


def refuse_secret_references(policy: object, place: str) -> None:
    """Raises RequestInvalid for a network policy that names a secret of the operator's: its value would leave the gateway."""
    for position, secret in enumerate(_secrets_of(policy)):
        if "placeholder" in secret:
            raise RequestInvalid(
                "A secret cannot be named here: commands run in the provider's container, so its value would leave this gateway. "
                "Send `domain`, `name` and `value`, or leave it out.",
                param=f"{place}.domain_secrets[{position}]",
                code="domain_secret_reference_unsupported",
            )


def _secrets_of(policy: object) -> Iterator[Json]:
    given = policy.get("domain_secrets") if isinstance(policy, Mapping) else None
    yield from (each for each in given if isinstance(each, dict)) if isinstance(given, list) else ()
