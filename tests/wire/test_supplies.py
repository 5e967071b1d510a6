"""Skills and uploaded files in containers: by reference and inline, at creation, by request and in later turns of a chain."""

import base64
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import container_of, entries, printed, run
from tests.wire.test_skills import bundle, parts, zipped

MARKDOWN = base64.b64encode(b"# Reads tables\nUse cut.\n").decode()


def reference(skill_id: str, version: str | None = None) -> dict[str, Any]:
    return {"type": "skill_reference", "skill_id": skill_id, **({"version": version} if version else {})}


def inline(name: str = "extract-csv", *, media_type: str = "text/markdown", data: str = MARKDOWN) -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "inline", "name": name, "description": "Inline ephemeral skill", "source": source}


def auto(**fields: Any) -> list[Any]:
    return [{"type": "shell", "environment": {"type": "container_auto", **fields}}]


def make_container(client: openai.OpenAI, **fields: Any) -> str:
    return client.containers.create(name="supplied", extra_body=fields).id


def test_a_referenced_skill_is_mounted_with_its_programs_and_cannot_be_changed(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=("s.zip", zipped(bundle()), "application/zip"))
    container = make_container(client, skills=[reference(skill.id)])
    assert printed(run(client, "cat /skills/tables/SKILL.md", container=container)).startswith("---\nname: tables")
    changed = run(
        client,
        "echo x >> /skills/tables/make.sh; rm -rf /skills/tables; mkdir /skills/new; ls /skills",
        container=container,
    )
    (entry,) = entries(changed)
    assert entry.stdout == "tables\n"
    assert entry.stderr.count("Read-only file system") == 3


def test_a_reference_means_the_version_that_it_names_and_holds_what_it_meant(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle(which="1")))
    client.skills.versions.create(skill.id, files=parts(bundle(which="2")))
    containers = [
        make_container(client, skills=[reference(id, version)])
        for id, version in ((skill.id, None), (skill.id, "latest"), (skill.id, "1"), ("tables", "2"))
    ]
    client.skills.delete(skill.id)
    shown = [printed(run(client, "cat /skills/tables/which", container=container)) for container in containers]
    assert shown == ["1", "2", "1", "2"]


def test_inline_skills_come_as_markdown_and_as_zip(client: openai.OpenAI) -> None:
    packed = base64.b64encode(zipped(bundle())).decode()
    skills = [inline(), inline("tables", media_type="application/zip", data=packed)]
    response = run(client, "cat /skills/extract-csv/SKILL.md; ls /skills/tables", tools=auto(skills=skills))
    assert printed(response) == (
        "---\nname: extract-csv\ndescription: Inline ephemeral skill\n---\n# Reads tables\nUse cut.\nSKILL.md\nmake.sh\n"
    )


@pytest.mark.parametrize(
    "skills, param, code",
    [
        ([reference("skill_" + "0" * 32)], "skills[0].skill_id", "skill_not_found"),
        ([inline(), inline()], "skills[1]", "invalid_skill"),
        ([inline("Not A Name")], "skills[0].source.data", "invalid_skill"),
        ([inline(media_type="text/html")], "skills[0].source.media_type", "unsupported_inline_skill_media_type"),
        ([inline(media_type="application/zip")], "skills[0].source.data", "invalid_skill"),
    ],
)
def test_a_skill_that_cannot_be_had_is_refused_before_anything_is_created(
    client: openai.OpenAI, skills: list[Any], param: str, code: str
) -> None:
    before = [container.id for container in client.containers.list()]
    for ask in (lambda: make_container(client, skills=skills), lambda: run(client, "true", tools=auto(skills=skills))):
        with pytest.raises(openai.BadRequestError) as refused:
            ask()
        assert refused.value.code == code
        assert (refused.value.param or "").endswith(param)
    assert [container.id for container in client.containers.list()] == before


def test_a_version_that_there_never_was_is_refused(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle()))
    with pytest.raises(openai.BadRequestError) as refused:
        make_container(client, skills=[reference(skill.id, "newest")])
    assert refused.value.code == "unsupported_skill_version"


def test_uploaded_files_are_there_before_the_first_command_under_safe_names(client: openai.OpenAI) -> None:
    first = client.files.create(file=("../data.csv", b"a,b\n"), purpose="user_data")
    second = client.files.create(file=("data.csv", b"c,d\n"), purpose="user_data")
    response = run(client, "cat data.csv data-2.csv; stat -c %U data.csv", tools=auto(file_ids=[first.id, second.id]))
    assert printed(response) == "a,b\nc,d\nagent\n"
    listed = client.containers.files.list(container_of(response), order="asc")
    assert [(file.path, file.source) for file in listed] == [
        ("/mnt/data/data.csv", "user"),
        ("/mnt/data/data-2.csv", "user"),
    ]


def test_a_chain_gets_new_files_and_skills_once_while_its_box_lives(client: openai.OpenAI) -> None:
    file = client.files.create(file=("data.csv", b"1"), purpose="user_data")
    first = run(client, "echo changed > data.csv; echo $$ > /tmp/here", tools=auto(file_ids=[file.id]))
    other = client.files.create(file=("other.csv", b"2"), purpose="user_data")
    again = run(
        client,
        "cat data.csv other.csv; ls; test -e /tmp/here && ls /skills",
        tools=auto(file_ids=[file.id, other.id], skills=[inline()]),
        previous_response_id=first.id,
    )
    assert container_of(again) == container_of(first)
    assert printed(again) == "changed\n2data.csv\nother.csv\nextract-csv\n"


def test_a_later_turn_may_change_what_can_change_and_is_refused_the_rest(client: openai.OpenAI) -> None:
    first = run(client, "true", tools=auto(memory_limit="1g"))
    later = {"previous_response_id": first.id}
    longer = run(client, "true", tools=auto(expires_after={"anchor": "last_active_at", "minutes": 90}), **later)
    container = client.containers.retrieve(container_of(longer))
    assert container.expires_after is not None
    assert container.expires_after.minutes == 90
    run(client, "true", tools=auto(memory_limit="1g"), **later)
    for limit in ("512m", "4g"):
        with pytest.raises(openai.BadRequestError) as refused:
            run(client, "true", tools=auto(memory_limit=limit), **later)
        assert (refused.value.code, refused.value.param) == (
            "container_memory_limit_fixed",
            "tools[0].environment.memory_limit",
        )


@pytest.mark.parametrize("where", ["container", "request"])
def test_a_file_that_there_is_not_is_refused_before_anything_is_created(client: openai.OpenAI, where: str) -> None:
    before = [container.id for container in client.containers.list()]
    with pytest.raises(openai.BadRequestError) as refused:
        if where == "container":
            make_container(client, file_ids=["file-" + "0" * 32])
        else:
            run(client, "true", tools=auto(file_ids=["file-" + "0" * 32]))
    assert refused.value.code == "file_not_found"
    assert [container.id for container in client.containers.list()] == before


def test_the_seeds_container_example_is_accepted(gateway: Gateway, client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle()))
    example = {
        "name": "my-workspace",
        "memory_limit": "1g",
        "expires_after": {"anchor": "last_active_at", "minutes": 60},
        "skills": [
            {"type": "skill_reference", "skill_id": skill.id.removeprefix("skill_"), "version": "latest"},
            {
                "type": "inline",
                "name": "extract-csv",
                "description": "Inline ephemeral skill",
                "source": {"type": "base64", "media_type": "text/markdown", "data": "IyBleHRyYWN0LWNzdgo="},
            },
        ],
    }
    with gateway.http() as http:
        answer = http.post("/v1/containers", json=example)
    assert answer.status_code == 200
    assert printed(run(client, "ls /skills", container=answer.json()["id"])) == "extract-csv\ntables\n"
