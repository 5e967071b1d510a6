"""Requests that schemathesis makes up from `/openapi.json`, right ones and wrong ones: every answer is one that the document names.

The same requests at every run. A longer search: `schemathesis run URL/openapi.json`.
"""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import positive_data_acceptance

from limpet.server.openapi import document
from tests.support.gateway import Gateway, running
from tests.wire.asking import container_of, output_files, run
from tests.wire.test_skills import bundle, zipped

EXAMPLES = 6
DOCUMENT = schemathesis.openapi.from_dict(document(has_keys=False))
OPERATIONS = {f"{each.ok().method.upper()} {each.ok().path}": each.ok() for each in DOCUMENT.get_all_operations()}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Of the runtime memory: thousands of commands would only take longer in boxes."""
    with running(tmp_path_factory.mktemp("examples"), runtime="memory") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    return {}


@pytest.fixture
def known(gateway: Gateway, kept: dict[str, str], operation: str) -> Iterator[dict[str, str]]:
    """Ids of things that there are, by the names that addresses have for them: the same until one may have been deleted."""
    if not kept:
        kept.update(made(gateway))
    yield kept
    if operation.startswith("DELETE "):
        kept.clear()


def made(gateway: Gateway) -> dict[str, str]:
    client = gateway.client()
    response = run(client, "echo x > f")
    skill = client.skills.create(files=("s.zip", zipped(bundle()), "application/zip"))
    (file,) = output_files(response)
    upload = client.files.create(file=("a.txt", b"some bytes"), purpose="user_data")
    return {
        "response_id": response.id,
        "container_id": container_of(response),
        "container_file_id": file["file_id"],
        "file_id": upload.id,
        "skill_id": skill.id,
        "version": "1",
        "model": "limpet/script",
    }


def parameters_of(path: str, known: dict[str, str]) -> dict[str, str]:
    ids = {**known, "file_id": known["container_file_id"]} if "{container_id}" in path else known
    return {name: id for name, id in ids.items() if f"{{{name}}}" in path}


# Where there is nothing but ids, which may be anything, there is nothing wrong to make up.
MODES = [
    pytest.param(name, mode, id=f"{mode.value}-{name}")
    for name, each in OPERATIONS.items()
    for mode in GenerationMode
    if mode == GenerationMode.POSITIVE or each.body.items or each.query.items
]


@pytest.mark.parametrize("operation, mode", MODES)
def test_every_answer_is_one_that_the_document_names(
    gateway: Gateway, known: dict[str, str], operation: str, mode: GenerationMode
) -> None:
    asked = OPERATIONS[operation]
    real = parameters_of(asked.path, known)

    for path_parameters in [real, None] if real else [None]:
        cases = asked.as_strategy(mode, path_parameters=path_parameters)

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases)
        def ask(case: Case) -> None:
            answer = case.call(base_url=gateway.url, timeout=30)
            # An id or a cursor that fits its schema is refused all the same where nothing has it.
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])

        ask()
