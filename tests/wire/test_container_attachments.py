"""Skills and uploaded files in containers: by reference and inline, at creation, by request and in later turns of a chain."""

import base64
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.wire.asking import container_of, entries, printed, run
from tests.wire.test_skills import bundle, parts, zipped
from tests.wire.voices import Voice

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


@pytest.mark.promise("skills-are-mounted-into-the-box")
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


@pytest.mark.promise("skill-reference-resolves-to-a-stored-skill", "skill-version-may-be-pinned")
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


@pytest.mark.promise("inline-markdown-becomes-skill-md", "inline-zip-skill-is-unpacked")
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
@pytest.mark.promise("other-inline-skill-types-are-refused")
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


@pytest.mark.promise("unknown-skill-version-is-refused")
def test_a_version_that_there_never_was_is_refused(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle()))
    for version in ("newest", "2", "0"):
        with pytest.raises(openai.BadRequestError) as refused:
            make_container(client, skills=[reference(skill.id, version)])
        assert refused.value.code == "unsupported_skill_version"


@pytest.mark.promise("hadrian-file-ids-are-the-ones-shown")
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


@pytest.mark.promise("skills-are-mounted-into-the-box")
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


@pytest.mark.promise("environment-of-a-chained-turn-narrows-the-chains-container", "expires-after-of-the-tool-is-taken")
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


@pytest.mark.promise("containers-post-takes-skills", "skill-reference-resolves-to-a-stored-skill")
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


@pytest.mark.promise("skills-are-mounted-into-the-box", "hadrian-model-is-told-the-staged-names")
def test_every_model_is_told_of_its_skills_and_files_in_this_turn_and_the_next(
    speaking_gateway: Gateway, voice: Voice
) -> None:
    client = speaking_gateway.client()
    files = [client.files.create(file=("a b.csv", b"1"), purpose="user_data").id for _ in range(2)]
    voice.play("Seen.", "Seen again.")

    first = client.responses.create(model=voice.model, input="go", tools=auto(file_ids=files, skills=[inline()]))
    client.responses.create(model=voice.model, input="on", tools=auto(), previous_response_id=first.id)

    for told in voice.told:
        heard = told.instructions if voice.kind.has_native_shell else told.tools["shell"]["description"]
        assert "/mnt/data/a b.csv, /mnt/data/a b-2.csv" in heard
        assert "extract-csv (/skills/extract-csv): Inline ephemeral skill" in heard


@pytest.mark.promise("hadrian-stored-limits-hold-at-a-later-boot", "containers-post-takes-a-memory-limit")
def test_what_was_stored_at_the_creation_holds_at_every_later_boot(home_directory: Path) -> None:
    config = "[features.containers]\nmax_live_boxes = 1\n"
    hog = "python3 -c 'x = bytearray(700 << 20); print(len(x) >> 20)'"
    with running(home_directory, config=config) as gateway:
        client = gateway.client()
        large = client.containers.create(name="large", memory_limit="1g").id
        small = client.containers.create(name="small").id
        for _ in range(2):
            assert printed(run(client, hog, container=large)) == "700\n"
            assert "memory limit of 512 MiB" in entries(run(client, hog, container=small))[0].stderr


@pytest.mark.promise(
    "memory-limit-of-the-tool-is-taken", "memory-default-and-cap-hold", "request-narrows-the-operators-limits"
)
@pytest.mark.promise("default-and-requested-memory-go-before-the-runtimes")
def test_a_request_gets_what_the_operator_grants_and_no_more(home_directory: Path) -> None:
    limits = "[features.server_tools.shell_limits]\ndefault_mem_limit_mb = 128\nmax_mem_limit_mb = 1024\n"
    hog = "python3 -c 'x = bytearray({} << 20); print(\"fits\")'"
    with running(home_directory, config=limits) as gateway:
        client = gateway.client()
        assert "memory limit of 128 MiB" in entries(run(client, hog.format(300)))[0].stderr
        assert printed(run(client, hog.format(300), tools=auto(memory_limit="512m"))) == "fits\n"
        with pytest.raises(openai.BadRequestError) as refused:
            run(client, "true", tools=auto(memory_limit="4g"))
        assert refused.value.param == "tools[0].environment.memory_limit"
        assert "4g of memory was asked for; this gateway allows 1024m at most" in refused.value.message


@pytest.mark.promise("containers-post-takes-an-expiry")
def test_a_container_takes_an_expiry_of_its_own(client: openai.OpenAI) -> None:
    container = client.containers.create(name="long", expires_after={"anchor": "last_active_at", "minutes": 60})
    shape = container.to_dict()
    assert (shape["idle_ttl_secs"], shape["expires_at"]) == (3600, container.created_at + 3600)


@pytest.mark.promise("hadrian-containers-switch-does-what-it-says")
def test_a_switch_for_containers_that_is_not_built_is_refused_as_unknown(home_directory: Path) -> None:
    with (
        pytest.raises(AssertionError, match=r"features\.containers\.enabled"),
        running(home_directory, config="[features.containers]\nenabled = false\n"),
    ):
        pass


def peak_memory(gateway: Gateway) -> int:
    """Bytes: the most that the gateway's process had in memory so far."""
    assert gateway.process is not None
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def staged(gateway: Gateway) -> list[Path]:
    directory = gateway.home / "staging"
    return [*directory.iterdir()] if directory.is_dir() else []


def bomb(name: str, size: int) -> dict[str, Any]:
    packed = zipped(
        {f"{name}/SKILL.md": f"---\nname: {name}\ndescription: d\n---\n".encode(), f"{name}/x": bytes(size)}
    )
    return inline(name, media_type="application/zip", data=base64.b64encode(packed).decode())


@pytest.mark.promise("skills-of-a-request-share-one-bound")
def test_many_small_archives_are_refused_together_and_cost_neither_memory_nor_disk(home_directory: Path) -> None:
    with running(home_directory) as gateway:
        client = gateway.client()
        make_container(client, skills=[bomb("warm", 1 << 20)])
        before = peak_memory(gateway)
        skills = [bomb(f"s{number}", 20 << 20) for number in range(12)]
        for ask in (
            lambda: make_container(client, skills=skills),
            lambda: run(client, "true", tools=auto(skills=skills)),
        ):
            with pytest.raises(openai.APIStatusError) as refused:
                ask()
            assert (refused.value.status_code, refused.value.code) == (413, "skill_too_large")
        assert peak_memory(gateway) - before < 100 << 20
        assert len(client.containers.list().data) == 1
        assert staged(gateway) == []


def test_turns_of_a_chain_cannot_fill_a_container_with_skills(client: openai.OpenAI) -> None:
    first = run(client, "true", tools=auto(skills=[bomb(f"a{number}", 24 << 20) for number in range(6)]))
    later = {"previous_response_id": first.id}
    with pytest.raises(openai.APIStatusError) as refused:
        run(client, "true", tools=auto(skills=[bomb(f"b{number}", 24 << 20) for number in range(4)]), **later)
    assert (refused.value.status_code, refused.value.code) == (413, "skill_too_large")
    again = run(client, "ls /skills", tools=auto(skills=[bomb("a0", 1)]), **later)
    assert printed(again).split() == [f"a{number}" for number in range(6)]


def test_what_skills_take_up_is_the_disk_of_the_box(home_directory: Path) -> None:
    with running(home_directory, config='[features.shell]\ntype = "bubblewrap"\ndisk_mb = 40\n') as gateway:
        client = gateway.client()
        fill = "for i in $(seq 30); do head -c 1048576 /dev/zero; sleep 0.1; done | cat > x"
        assert entries(run(client, fill))[0].outcome.type == "exit"
        (entry,) = entries(run(client, fill, tools=auto(skills=[bomb("large", 24 << 20)])))
        assert "disk limit of 40 MiB" in entry.stderr


@pytest.mark.parametrize("source", ["***", "IyBoaQ", "é"])
def test_an_inline_skill_that_is_not_base64_is_refused(client: openai.OpenAI, source: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        make_container(client, skills=[inline(data=source)])
    assert (refused.value.param or "").endswith("skills[0].source.data")
