"""Tables of known programs: whether one only reads, which options run programs or write, which words are no paths.

A program that stands in no table is opaque: it may do anything, and runs under `readonly` or confinement only where the allowlist
names it. `docs/policy.md` prints the readers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operands = Literal["paths", "texts", "first is text", "special"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program.

    `reads`: it may run under readonly. `writes` are the options (letters, and words with their dashes off) that make a reader
    write; `runs` those that run programs, refused wherever a policy is strict; `lists` those that follow links or name files full
    of file names, refused under confinement. `valued` are letters that take a value, `texts` those of them (and `long_texts` words)
    whose value is no path; `first` are options that stand for the first operand where that is a text. `most` operands are read, a
    further one is written to.
    """

    reads: bool = True
    operands: Operands = "paths"
    writes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    valued: str = ""
    texts: str = ""
    long_texts: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    most: int | None = None
    lists: tuple[str, ...] = ()

    def letters(self, names: tuple[str, ...]) -> str:
        return "".join(name for name in names if len(name) == 1)

    def words(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if len(name) > 1)


_TEXT = Program(operands="texts")
_FILES = Program()
_SUMS = Program(lists=("c", "check"))
_GREP = Program(
    operands="first is text", lists=("R", "dereference-recursive"), valued="efmABCdD", texts="emABCdD", first=("e", "f", "regexp", "file"),
    long_texts=("regexp", "max-count", "context", "after-context", "before-context", "include", "exclude", "color", "colour",
                "exclude-dir", "label", "binary-files", "directories", "devices"),
)  # fmt: skip

READERS: Mapping[str, Program] = {
    **dict.fromkeys("echo printf true false : pwd seq expr factor numfmt tr sleep whoami id groups uname arch nproc uptime tty logname "
                    "basename dirname which whereis getent printenv locale cal type times test [ help break continue return exit "
                    "shift set shopt wait umask ulimit read mapfile readarray getopts unset cd pushd popd dirs jobs".split(), _TEXT),
    **dict.fromkeys("cat tac rev nl stat readlink realpath cmp comm od hexdump strings ls df ps free who w column "
                    "fmt expand unexpand paste join nm size".split(), _FILES),
    **dict.fromkeys("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum".split(), _SUMS),
    **dict.fromkeys("grep egrep fgrep".split(), _GREP),
    "head": Program(valued="nc", texts="nc", long_texts=("lines", "bytes")),
    "tail": Program(valued="ncs", texts="ncs", long_texts=("lines", "bytes", "pid", "sleep-interval")),
    "diff": Program(lists=("r", "recursive", "from-file", "to-file")),
    "du": Program(lists=("files0-from", "L", "dereference", "D", "H", "dereference-args")),
    "wc": Program(lists=("files0-from",)),
    "cut": Program(valued="bcdf", texts="bcdf", long_texts=("delimiter", "fields", "bytes", "characters", "output-delimiter")),
    "fold": Program(valued="w", texts="w", long_texts=("width",)),
    "sort": Program(writes=("o", "output"), lists=("files0-from",), runs=("compress-program", "T", "temporary-directory"), valued="kStoT",
                    texts="kSt", long_texts=("key", "field-separator", "buffer-size", "parallel", "sort")),
    "uniq": Program(valued="fsw", texts="fsw", long_texts=("skip-fields", "skip-chars", "check-chars"), most=1),
    "file": Program(writes=("C", "compile"), runs=("z", "Z", "uncompress", "uncompress-noreport", "f", "files-from"), valued="mfFeP",
                    texts="FeP"),
    "date": Program(operands="texts", writes=("s", "set"), valued="dfrs", texts="d", long_texts=("date",)),
    "hostname": Program(operands="texts", writes=("F", "file", "b", "boot"), most=0),
    "tree": Program(writes=("o", "output"), lists=("fromfile", "fromtabfile", "l"), valued="LPIoHT", texts="LPIHT"),
    "base64": Program(writes=("o", "output"), valued="w", texts="w", long_texts=("wrap",)),
    "base32": Program(valued="w", texts="w", long_texts=("wrap",)),
    "xxd": Program(valued="clsgo", texts="clsgo", most=1),
    "jq": Program(operands="first is text", first=("f", "from-file"), runs=("L", "library-path"), valued="fL",
                  long_texts=("arg", "argjson", "indent", "args", "jsonargs")),
    "rg": Program(operands="first is text", first=("e", "f", "regexp", "file", "files"), valued="efgtTmABCjMr", texts="egtTmABCjMr",
                  runs=("pre", "hostname-bin", "z", "search-zip", "pre-glob"),
                  lists=("L", "follow", "ignore-file"),
                  long_texts=("regexp", "glob", "type", "max-count", "context", "replace", "sort", "iglob", "max-depth", "color")),
    "sed": Program(operands="special", writes=("i", "in-place"), runs=("f", "file"), valued="el", texts="el",
                   long_texts=("expression", "line-length"), first=("e", "expression")),
    "awk": Program(operands="special", runs=("f", "file", "i", "include", "l", "load", "E", "exec", "D", "debug", "o", "pretty-print",
                   "p", "profile", "d", "dump-variables", "e", "source"), valued="Fv", texts="Fv",
                   long_texts=("field-separator", "assign")),
    "find": Program(operands="special"),
    "xargs": Program(operands="special"), "env": Program(operands="special"), "timeout": Program(operands="special"),
    "nice": Program(operands="special"), "time": Program(operands="special", writes=("o", "output", "a", "append"), valued="fo"),
    "nohup": Program(operands="special"),
    "command": Program(operands="special"), "stdbuf": Program(operands="special"), "setsid": Program(operands="special"),
}  # fmt: skip
_ALIASES = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "gfind": "find"}

WRITERS: Mapping[str, Program] = {
    **dict.fromkeys("rm rmdir mkdir touch mkfifo unlink link sync shred tee truncate mktemp gzip gunzip bzip2 bunzip2 zcat "
                    "unzip zipinfo dos2unix".split(), Program(reads=False)),
    **dict.fromkeys("xz unxz".split(), Program(reads=False, lists=("files", "files0"))),
    "kill": Program(reads=False, operands="texts"), "disown": Program(reads=False, operands="texts"),
    "cp": Program(reads=False, lists=("L", "dereference", "H"), valued="tS"), "mv": Program(reads=False), "ln": Program(reads=False),
    "install": Program(reads=False, runs=("strip-program",), valued="mogSt", texts="mogS"),
    **dict.fromkeys("chmod chown chgrp".split(), Program(reads=False, operands="first is text", first=("reference",))),
    "dd": Program(reads=False),
    "split": Program(reads=False, runs=("filter",), valued="abClnt", texts="abClnt"),
    "tar": Program(reads=False, lists=("h", "dereference"), valued="fCbHKLNVXg"),
    "zip": Program(reads=False, lists=("r", "recurse-paths", "R"), runs=("T", "TT", "test", "unzip-command", "@")),
    "curl": Program(reads=False, runs=("K", "config"), valued="HXuAew", texts="HXuAe", long_texts=("header", "request", "user")),
    "wget": Program(reads=False, runs=("e", "execute", "use-askpass", "i", "input-file", "config")),
    "git": Program(reads=False, operands="special"),
}  # fmt: skip


def known(name: str) -> Program | None:
    """What is known of the program; None for an opaque one."""
    name = _ALIASES.get(name, name)
    return READERS.get(name) or WRITERS.get(name)


def plain(name: str) -> str:
    """The name under which a program stands in the tables."""
    return _ALIASES.get(name, name)
