"""What a provider's hosted `mcp` tools sign in with to the servers that they call, and the secrets of a shell that the provider runs.
They are given to the provider alone: as with OpenAI they are neither stored in the clear nor shown. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
FIELDS = ("authorization", "headers")  # of a tool of the type mcp


SECRETS = "domain_secrets"  # of the network policy of a shell's environment


def without_credentials(tools: Sequence[Json]) -> list[Json]:
    """The tools without them, those in namespaces too."""
    return [_without(tool) for tool in tools]


def _without(tool: Json) -> Json:
    if tool.get("type") == "mcp":
        return {key: value for key, value in tool.items() if key not in FIELDS}
    if _has_secrets(tool):
        environment = tool["environment"]
        policy = {key: value for key, value in environment["network_policy"].items() if key != SECRETS}
        return {**tool, "environment": {**environment, "network_policy": policy}}
    if tool.get("type") == "namespace":
        return {**tool, "tools": without_credentials(tool["tools"])}
    return tool


def credentials_of(tools: Sequence[Json], *, shells: bool, within: str = "") -> dict[str, Json]:
    """What `without_credentials` leaves out: the fields by their tool's place, such as `2` or, in a namespace, `2.0`. `shells` says that
    a shell among them is the provider's."""
    found: dict[str, Json] = {}
    for position, tool in enumerate(tools):
        place = f"{within}{position}"
        if tool.get("type") == "namespace":
            found |= credentials_of(tool["tools"], shells=False, within=f"{place}.")
        elif tool.get("type") == "mcp" and (fields := {key: tool[key] for key in FIELDS if key in tool}):
            found[place] = fields
        elif shells and _has_secrets(tool):
            found[place] = {"environment": tool["environment"]}
    return found


def with_credentials(tools: Sequence[Json], credentials: Mapping[str, Json], *, within: str = "") -> list[Json]:
    """The tools as they came, from what the two others made of them."""
    whole: list[Json] = []
    for position, tool in enumerate(tools):
        place = f"{within}{position}"
        if tool.get("type") == "namespace":
            whole.append({**tool, "tools": with_credentials(tool["tools"], credentials, within=f"{place}.")})
        else:
            whole.append({**tool, **credentials.get(place, {})})
    return whole


def _has_secrets(tool: Json) -> bool:
    environment = tool.get("environment") if tool.get("type") == "shell" else None
    policy = environment.get("network_policy") if isinstance(environment, Mapping) else None
    return isinstance(policy, Mapping) and SECRETS in policy
