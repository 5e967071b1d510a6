"""Cuts the schemas that the oracle needs out of OpenAI's published OpenAPI document.

    python tests/wire/data/extract.py openai-openapi.json > tests/wire/data/openai-schema.json

Keeps what decides validity and drops prose. Never run by the tests: it is how the data file was made and how it is renewed.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOTS = (
    "CreateResponse",
    "Response",
    "ResponseStreamEvent",
    "ResponseItemList",
    "CompactResource",
    "CreateContainerBody",
    "ContainerResource",
    "ContainerListResource",
    "ContainerFileResource",
    "ContainerFileListResource",
    "OpenAIFile",
    "ListFilesResponse",
    "Error",
    "ErrorResponse",
    "ListModelsResponse",
    "Model",
)
PROSE = ("description", "title", "example", "examples", "deprecated", "discriminator", "externalDocs", "default")
NAMED = ("properties", "$defs", "patternProperties")


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    schemas = document["components"]["schemas"]
    wanted: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted[name] = slim(schemas[name], owner=name)
            waiting += names_in(wanted[name])
    # The document forgets that `usage` is null until a response has ended; the service, the SDK and Open Responses know it.
    properties = wanted["Response"]["allOf"][2]["properties"]
    properties["usage"] = {"anyOf": [properties["usage"], {"type": "null"}]}
    result = {
        "$comment": f"from {document['info']['title']} {document['info']['version']}; see NOTICE.md",
        "$defs": {name: wanted[name] for name in sorted(wanted)},
    }
    json.dump(result, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.write("\n")


def slim(schema: Any, *, owner: str) -> Any:
    """The schema in plain JSON Schema 2020-12: no prose, `nullable` as a union, references into `$defs`."""
    if isinstance(schema, list):
        return [slim(part, owner=owner) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in PROSE or key in ("nullable", "$recursiveAnchor") or key.startswith("x-"):
            continue
        if key in NAMED:
            plain[key] = {name: slim(part, owner=owner) for name, part in value.items()}
        elif key == "$ref":
            plain[key] = value.replace("#/components/schemas/", "#/$defs/")
        elif key == "$recursiveRef":
            plain["$ref"] = f"#/$defs/{owner}"
        elif key == "oneOf":
            # The service picks the branch by its discriminator; some branches overlap, so "exactly one" would refuse good values.
            plain["anyOf"] = slim(value, owner=owner)
        elif key in ("enum", "const", "required"):
            plain[key] = value
        else:
            plain[key] = slim(value, owner=owner)
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


def names_in(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for part in schema for name in names_in(part)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"].removeprefix("#/$defs/")] if isinstance(schema.get("$ref"), str) else []
    return here + [name for part in schema.values() for name in names_in(part)]


if __name__ == "__main__":
    main()
