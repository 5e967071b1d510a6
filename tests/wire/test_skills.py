"""`/v1/skills` over a real socket: the official client in strict mode, and uploads that mean ill."""

import base64
import io
import stat
import zipfile
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway

FRONT = "---\nname: {name}\ndescription: Makes tables of text.\n---\n# How\nRun make.sh.\n"


def bundle(name: str = "tables", **files: str) -> dict[str, bytes]:
    texts = {"SKILL.md": FRONT.format(name=name), "make.sh": "#!/bin/sh\necho made\n", **files}
    return {f"{name}/{path}": text.encode() for path, text in texts.items()}


def zipped(files: dict[str, bytes], *, change: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)
            entry.compress_type = zipfile.ZIP_DEFLATED
            if change is not None:
                change(entry)
            archive.writestr(entry, data)
    return packed.getvalue()


def parts(files: dict[str, bytes]) -> list[Any]:
    return list(files.items())


def refusal(gateway: Gateway, data: bytes) -> tuple[int, dict[str, Any]]:
    with gateway.http() as http:
        answer = http.post("/v1/skills", files={"files": ("skill.zip", data, "application/zip")})
    return answer.status_code, answer.json()["error"]


def test_a_skill_comes_from_a_zip_and_goes_out_as_one(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=("tables.zip", zipped(bundle()), "application/zip"))
    assert (skill.name, skill.description, skill.default_version, skill.latest_version) == (
        "tables",
        "Makes tables of text.",
        "1",
        "1",
    )
    assert client.skills.retrieve(skill.id) == skill
    with zipfile.ZipFile(io.BytesIO(client.skills.content.retrieve(skill.id).read())) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == bundle()


def test_a_skill_comes_from_a_directory_of_parts(client: openai.OpenAI) -> None:
    files = bundle(**{"deep/er/notes.txt": "x"})
    skill = client.skills.create(files=parts(files))
    with zipfile.ZipFile(io.BytesIO(client.skills.content.retrieve(skill.id).read())) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files


def test_versions_count_up_and_the_default_is_chosen(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle()))
    second = client.skills.versions.create(skill.id, files=parts(bundle(extra="2")))
    third = client.skills.versions.create(skill.id, files=parts(bundle(extra="3")), default=True)
    assert [second.version, third.version] == ["2", "3"]
    now = client.skills.retrieve(skill.id)
    assert (now.default_version, now.latest_version) == ("3", "3")
    assert client.skills.update(skill.id, default_version="2").default_version == "2"
    assert [version.version for version in client.skills.versions.list(skill.id)] == ["3", "2", "1"]
    assert [version.version for version in client.skills.versions.list(skill.id, order="asc", limit=1)] == [
        "1",
        "2",
        "3",
    ]
    assert client.skills.versions.retrieve("1", skill_id=skill.id).version == "1"
    data = client.skills.versions.content.retrieve("3", skill_id=skill.id).read()
    assert zipfile.ZipFile(io.BytesIO(data)).read("tables/extra") == b"3"


def test_versions_go_by_the_rules(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle()))
    client.skills.versions.create(skill.id, files=parts(bundle()))
    with pytest.raises(openai.BadRequestError, match="is the default"):
        client.skills.versions.delete("1", skill_id=skill.id)
    deleted = client.skills.versions.delete("2", skill_id=skill.id)
    assert (deleted.deleted, deleted.version) == (True, "2")
    assert client.skills.versions.create(skill.id, files=parts(bundle())).version == "3"
    client.skills.versions.delete("3", skill_id=skill.id)
    client.skills.versions.delete("1", skill_id=skill.id)
    with pytest.raises(openai.NotFoundError):
        client.skills.retrieve(skill.id)


def test_a_deleted_skill_is_gone_with_its_versions(client: openai.OpenAI) -> None:
    skill = client.skills.create(files=parts(bundle()))
    assert client.skills.delete(skill.id).deleted is True
    calls: list[Callable[[], object]] = [
        lambda: client.skills.retrieve(skill.id),
        lambda: client.skills.delete(skill.id),
        lambda: client.skills.content.retrieve(skill.id),
        lambda: client.skills.versions.list(skill.id),
        lambda: client.skills.versions.retrieve("1", skill_id=skill.id),
        lambda: client.skills.update(skill.id, default_version="1"),
    ]
    for call in calls:
        with pytest.raises(openai.NotFoundError):
            call()


def test_skills_are_listed_by_age_and_found_by_name_and_bare_uuid(client: openai.OpenAI) -> None:
    made = [client.skills.create(files=parts(bundle(f"listed-{number}"))).id for number in range(3)]
    assert [skill.id for skill in client.skills.list(limit=2)][:3] == made[::-1]
    assert [skill.id for skill in client.skills.list(order="asc", after=made[0])][:2] == made[1:]
    bare = made[0].removeprefix("skill_")
    dashed = "-".join((bare[:8], bare[8:12], bare[12:16], bare[16:20], bare[20:]))
    assert [client.skills.retrieve(name).id for name in ("listed-0", bare, dashed)] == [made[0]] * 3


@pytest.mark.parametrize("version", ["0", "-1", "1.0", "newest", "99999999999999"])
def test_what_is_no_version_is_refused(client: openai.OpenAI, version: str) -> None:
    skill = client.skills.create(files=parts(bundle()))
    with pytest.raises(openai.BadRequestError) as refused:
        client.skills.versions.retrieve(version, skill_id=skill.id)
    assert refused.value.code == "unsupported_skill_version"


def as_link(entry: zipfile.ZipInfo) -> None:
    if entry.filename.endswith(("make.sh", "evil")):
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16


def as_fifo(entry: zipfile.ZipInfo) -> None:
    if entry.filename.endswith("make.sh"):
        entry.external_attr = (stat.S_IFIFO | 0o644) << 16


FRONTLESS = {"tables/SKILL.md": b"# no front matter"}
HOSTILE: list[tuple[str, bytes, str]] = [
    ("not a zip", b"hello", "cannot be read"),
    ("empty", b"", "cannot be read"),
    ("cut short", zipped(bundle())[:-30], "cannot be read"),
    ("nothing in it", zipped({}), "exactly one folder"),
    ("no folder", zipped({"SKILL.md": FRONT.encode()}), "exactly one folder"),
    ("two folders", zipped({**bundle(), **bundle("other")}), "exactly one folder"),
    ("traversal", zipped({**bundle(), "tables/../../evil": b"x"}), "cannot be a path"),
    ("absolute", zipped({**bundle(), "/etc/evil": b"x"}), "cannot be a path"),
    ("backslash", zipped({**bundle(), "tables/..\\evil": b"x"}), "cannot be a path"),
    ("drive", zipped({**bundle(), "C:/evil": b"x"}), "cannot be a path"),
    ("control character", zipped({**bundle(), "tables/a\nb": b"x"}), "cannot be a path"),
    ("deep", zipped({**bundle(), "tables/" + "a/" * 40 + "x": b"x"}), "cannot be a path"),
    ("link", zipped(bundle(), change=as_link), "not a regular file"),
    ("fifo", zipped(bundle(), change=as_fifo), "not a regular file"),
    ("no manifest", zipped({"tables/make.sh": b"x"}), "0 files named SKILL.md"),
    ("two manifests", zipped({**bundle(), "tables/deep/skill.md": b"x"}), "2 files named SKILL.md"),
    ("manifest too deep", zipped({"tables/deep/SKILL.md": FRONT.encode()}), "files named SKILL.md"),
    ("same path twice", zipped({**bundle(), "tables/MAKE.sh": b"x"}), "same path"),
    ("file and directory", zipped({**bundle(), "tables/make.sh/x": b"x"}), "same path"),
    ("no front matter", zipped(FRONTLESS), "no front matter"),
    ("no yaml", zipped({"tables/SKILL.md": b"---\n{: [\n---\n"}), "not YAML"),
    ("no mapping", zipped({"tables/SKILL.md": b"---\n- a\n---\n"}), "not a mapping"),
    ("no name", zipped({"tables/SKILL.md": b"---\ndescription: x\n---\n"}), "cannot be a skill's name"),
    ("bad name", zipped({"Ta/SKILL.md": b"---\nname: Ta\ndescription: x\n---\n"}), "cannot be a skill's name"),
    ("two hyphens", zipped({"a--b/SKILL.md": b"---\nname: a--b\ndescription: x\n---\n"}), "cannot be a skill's name"),
    ("other folder", zipped({"other/SKILL.md": FRONT.format(name="tables").encode()}), "its folder is 'other'"),
    ("no description", zipped({"t/SKILL.md": b"---\nname: t\n---\n"}), "no description"),
    ("python in yaml", zipped({"t/SKILL.md": b"---\nname: !!python/object/apply:os.system [id]\n---\n"}), "uses a tag"),
]


@pytest.mark.parametrize("data, problem", [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_bundle_that_is_not_sound_is_refused_and_leaves_nothing(
    gateway: Gateway, client: openai.OpenAI, data: bytes, problem: str
) -> None:
    before = client.skills.list().data
    status, error = refusal(gateway, data)
    assert (status, error["code"], problem in error["message"]) == (400, "invalid_skill", True), error
    assert client.skills.list().data == before


def test_a_bomb_is_refused_by_what_it_unpacks_to(gateway: Gateway) -> None:
    status, error = refusal(gateway, zipped({**bundle(), "tables/bomb": bytes(26 << 20)}))
    assert (status, error["code"]) == (413, "skill_too_large")


def test_many_files_and_large_forms_are_refused(gateway: Gateway) -> None:
    status, error = refusal(gateway, zipped({**bundle(), **{f"tables/{number}": b"" for number in range(500)}}))
    assert (status, error["code"]) == (413, "skill_too_large")


@pytest.mark.parametrize("form", [{}, {"file": ("x.zip", b"PK", "application/zip")}])
def test_a_form_without_a_skill_says_what_to_send(gateway: Gateway, form: dict[str, Any]) -> None:
    with gateway.http() as http:
        answer = http.post("/v1/skills", files={"other": ("x", b"x"), **form})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "files"


def test_a_broken_off_upload_stores_nothing(gateway: Gateway, client: openai.OpenAI) -> None:
    before = client.skills.list().data
    body = b'--x\r\ncontent-disposition: form-data; name="files"; filename="a.zip"\r\n\r\n' + zipped(bundle())
    headers = {"content-type": "multipart/form-data; boundary=x"}
    assert httpx2.post(f"{gateway.url}/v1/skills", content=body, headers=headers).status_code == 400
    assert client.skills.list().data == before


ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
)


@pytest.mark.parametrize(
    "line",
    ["name: 12:30:45", "name: yes", "name: !!timestamp x", "name: !!bool x", "name: !!int ''", f"name: 0x{'f' * 6000}",
     "metadata: {<<: {a: b}}", "description: 2026-11-22", f"x:\n{ALIASES}"],
)  # fmt: skip
@pytest.mark.promise("skill-front-matter-is-plain-text")
def test_front_matter_that_is_no_plain_text_is_400_everywhere(
    gateway: Gateway, client: openai.OpenAI, line: str
) -> None:
    fields = {"name": "name: tables", "description": "description: d", line.partition(":")[0]: line}
    packed = zipped({"tables/SKILL.md": ("---\n" + "\n".join(fields.values()) + "\n---\n").encode()})
    status, error = refusal(gateway, packed)
    assert (status, error["code"]) == (400, "invalid_skill"), error
    source = {"type": "base64", "media_type": "application/zip", "data": base64.b64encode(packed).decode()}
    skill = {"type": "inline", "name": "tables", "description": "d", "source": source}
    with pytest.raises(openai.BadRequestError) as refused:
        client.containers.create(name="inline", extra_body={"skills": [skill]})
    assert refused.value.code == "invalid_skill"


def test_more_parts_than_a_skill_may_have_are_refused_on_the_way(gateway: Gateway, client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        client.skills.create(files=parts(bundle(**{str(number): "" for number in range(600)})))
    assert (refused.value.status_code, refused.value.code) == (413, "skill_too_large")
    assert not [*(gateway.home / "staging").iterdir()]
