"""Paths that leave the trusted directory, in every form in which a parameter can hold one."""

import pytest

from limpet.core.errors import FileMissing, PathOutside
from limpet.core.ports import FileStat
from limpet.tools.shell_cmd.tokens import possible_paths
from limpet.tools.shell_cmd.trusted_directory import TrustedDirectory

pytestmark = pytest.mark.anyio

TRUSTED = "/mnt/data/project"
LINKS = {
    f"{TRUSTED}/out": "/etc",
    f"{TRUSTED}/up": "../../..",
    f"{TRUSTED}/in": "src",
    f"{TRUSTED}/absolute": f"{TRUSTED}/src",
    f"{TRUSTED}/twice": "in/../out",
    f"{TRUSTED}/loop": "loop",
    f"{TRUSTED}/sibling": "../other",
    f"{TRUSTED}/src/back": "../out/passwd",
}
DIRECTORIES = {"/mnt/data", TRUSTED, f"{TRUSTED}/src", "/mnt/data/other"}


class Tree:
    """What `stat` says of a few files, as a sandbox's files would."""

    async def stat(self, path: str) -> FileStat:
        if not path.startswith("/mnt/data"):
            raise PathOutside(path, ["/mnt/data"])
        if path in LINKS:
            return FileStat(path=path, kind="link", size=1, modified=0, target=LINKS[path])
        if path in DIRECTORIES:
            return FileStat(path=path, kind="directory", size=0, modified=0)
        raise FileMissing(path)


async def leaves(word: str, *, base: str = TRUSTED, also: tuple[str, ...] = ()) -> bool:
    scope = TrustedDirectory(trusted=TRUSTED, also=also, files=Tree())
    return any([await scope.escapes(path, base=base) for path in possible_paths(word)])


LEADING_OUTSIDE = [
    "/etc/passwd", "/", "//etc", "..", "../", "../x", "./../../etc", "src/../../x", "src/../..", "~", "~/x", "~root/x", "~root",
    "/mnt/data/projectx", "/mnt/data/project/../x", "/mnt/data/project/../../../etc/passwd",
    "--output=/tmp/outside", "-o/tmp/outside", "-I/tmp/include", "-I../x", "-L~/x", "-xf../../x.tar", "-Isrc/../../x", "--a=../x",
    "--a=~/x", "-C/etc", "--file=@/etc/passwd", "--git-dir=/etc",
    "if=/etc/passwd", "a=/etc/x", "out=/tmp/x", "a=b=/etc/x", "a=../x", "of=~/x",
    "@/etc/passwd", "@../x", "x=@/etc/passwd", "--data=@../x",
    "-d@/etc/passwd", "-Fx=@/etc/passwd", "-Wl,-rpath,/etc", "-Wa,@/etc/x", "f{i}le:///etc/passwd", "-fout",
    "-xzfout", "-xzfout/passwd",
    "--file=out",
    "file:///etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/passwd", "file:///%65tc/passwd",
    "x=file:///etc/passwd", "file:../x", "url:file:///etc/passwd",
    "a:/etc/passwd", "host:/etc/x", "x,/etc/y", "a:~/x", "a:../x", "type=bind,source=/etc",
    "https://../../../../../etc/passwd", "\\\\srv\\x", "C:\\x", "c:/x", "--a=C:\\x",
    "out", "out/x", "out/new/file", "up", "up/etc", "twice", "twice/passwd", "loop", "loop/x", "sibling", "sibling/x", "src/back",
    "in/back", "in/../out/x", "--file=out/x", "x=out/passwd", "@out/passwd", "-Iout/x",
]  # fmt: skip


@pytest.mark.statement("s3-paths-outside-are-refused")
async def test_what_leads_outside_is_seen() -> None:
    for word in LEADING_OUTSIDE:
        assert await leaves(word), word


STAYING_INSIDE = [
    ".", "./", "src", "src/x.py", "./src/../src", "/mnt/data/project", "/mnt/data/project/src/new", "in", "in/new", "absolute/x", "-la",
    "--oneline", "-I./include", "--output=src/x", "a=b", "a=src/x", "@src/x", "file:src/x", "file:///mnt/data/project/x",
    "https://example.com/a/b?c=d", "http://localhost:8080/x", "user@example.com", "s/a/b/", "*.py", "src/**/*.py", "HEAD~1", "HEAD^",
    "a..b", "main..dev", "...", "Accept: text/html", "12:30", "x:y", "--format=%h %an", "-", "--", "", "a b/c", "$HOME", "origin/main",
    "node_modules/.bin/tsc", "-DX=1", "--a=b,c", "{a,b}", "fix: a/b", "1.0.0", ".gitignore", ".git/config", "@types/node", "a@1.2",
]  # fmt: skip


async def test_what_stays_inside_or_is_no_path_passes() -> None:
    for word in STAYING_INSIDE:
        assert not await leaves(word), word


async def test_a_value_that_hangs_on_its_option_is_refused_where_it_can_be_read_in_two_ways() -> None:
    assert await leaves("-osrc/x")  # -o src/x, or -o -s -r -c /x
    assert not await leaves("-o")
    assert not await leaves("src/x")


async def test_relative_paths_are_seen_from_the_directory_of_the_command() -> None:
    assert not await leaves("../x", base=f"{TRUSTED}/src")
    assert await leaves("../../x", base=f"{TRUSTED}/src")


async def test_other_trusted_directories_may_be_led_into() -> None:
    assert await leaves("/skills/pdf/run.py")
    assert not await leaves("/skills/pdf/run.py", also=("/skills",))
    assert not await leaves("sibling/x", also=("/mnt/data/other",))


async def test_links_are_resolved_as_the_kernel_does() -> None:
    scope = TrustedDirectory(trusted=TRUSTED, also=(), files=Tree())

    assert await scope.inside("in/new/x", base=TRUSTED) == f"{TRUSTED}/src/new/x"
    assert await scope.inside("absolute/./x", base=TRUSTED) == f"{TRUSTED}/src/x"
    assert await scope.inside("back", base=f"{TRUSTED}/src") is None
    assert await scope.inside("loop", base=TRUSTED) is None
    assert await scope.inside("", base=TRUSTED) == TRUSTED
