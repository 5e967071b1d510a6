"""Which variables a script may set where its commands are held to a policy. Pure tables."""

import re

from limpet.guard.policy.environment import NON_INTERACTIVE, is_dangerous

# What bash itself reads or evaluates: how words are split, where programs are found, what runs at a prompt, what is an integer.
_OF_BASH = frozenset(
    """
    _ AUTO_RESUME BASHOPTS BASHPID CDPATH CHILD_MAX COMPREPLY COPROC DIRSTACK EMACS ENV EPOCHREALTIME EPOCHSECONDS
    EUID EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST GLOBIGNORE GROUPS HISTCMD HISTCONTROL HISTFILE HISTFILESIZE HISTIGNORE HISTSIZE
    HISTTIMEFORMAT HOME HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF INPUTRC INSIDE_EMACS LINENO MACHTYPE MAIL MAILCHECK MAILPATH
    MAPFILE OLDPWD OPTARG OPTERR OPTIND OSTYPE PATH PIPESTATUS POSIXLY_CORRECT PPID PROMPT_COMMAND PROMPT_DIRTRIM PS0 PS1 PS2 PS3 PS4
    PWD RANDOM READLINE_ARGUMENT READLINE_LINE READLINE_MARK READLINE_POINT SECONDS SHELL SHELLOPTS SHLVL SRANDOM TEXTDOMAIN
    TEXTDOMAINDIR TIMEFORMAT TMOUT TMPDIR UID auto_resume histchars
    """.split()  # REPLY and a few like it are only ever written
)
_SHELLS = re.compile(r"BASH|COMP_|LC_|LANG|PS\d|HIST")
_HARMLESS_LOCALES = frozenset({"C", "POSIX", "C.UTF-8", "en_US.UTF-8"})
# What programs take for orders: libraries to load, programs to start, options, places of their configuration.
_OF_PROGRAMS = re.compile(
    r"""(?x)
    LD_.* | DYLD_.* | GLIBC_.* | MALLOC_.* | GCONV_PATH | LOCPATH | NLSPATH | RES_.* | HOSTALIASES
    | PYTHON.* | PERL.* | RUBY.* | NODE_(?!ENV$).* | NPM_.* | YARN_.* | BUN_.* | DENO_.* | JAVA_.* | _JAVA.* | JDK_.* | CLASSPATH
    | PHP.* | LUA_.* | TCL.* | GO(?!AL).*(PATH|ROOT|FLAGS|PROXY|ENV).* | GOFLAGS | CARGO.* | RUST(?!_BACKTRACE$|_LOG$).* | GEM_.*
    | BUNDLE_.* | PIP_.* | UV_.* | VIRTUAL_ENV.* | CONDA.*
    | GIT_.* | SSH_.* | RSYNC_.* | CVS.* | SVN_.* | HG.* | TAR_.* | TAPE | GZIP | BZIP.* | XZ_.* | ZIPOPT | ZSTD_.* | UNZIP.*
    | GREP_.* | RIPGREP_.* | LESS.* | MORE | MAN.* | .*PAGER | .*EDITOR | VISUAL | BROWSER | TERMINFO.* | TERMCAP | TERMPATH
    | AWK.* | GAWK.* | SED.* | FIND.* | XARGS.* | MAKE.* | MFLAGS | GNUMAKEFLAGS | CC | CXX | CPP | LD | AR | AS | CFLAGS | LDFLAGS
    | DOCKER_.* | KUBECONFIG | AWS_.* | AZURE_.* | GOOGLE_.* | VAULT_.* | CURL_.* | WGET.* | .*_PROXY | SSL.* | OPENSSL.* | REQUESTS_.*
    | XDG_.* | DBUS_.* | SYSTEMD_.* | SUDO_.* | DPKG_.* | APT_.* | DEBIAN_.* | EDITOR | FZF_.* | PG.* | MYSQL.* | SQLITE.*
    | .*_(OPT|OPTS|OPTIONS|FLAGS|PRELOAD|PATH|HOME|CONFIG|CONFIG_FILE|CONFIG_PATH|RC|RCFILE|COMMAND|CMD|SHELL|HOOK|HOOKS|PLUGIN|PLUGINS
          |PROGRAM|EXEC|ASKPASS|LIBRARY|LIBRARIES|LOADER|WRAPPER|DIR)
    | .*(RC|PATH|FLAGS) | npm_config_.* | .*_proxy | _JAVA.*
    """
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words for programs that only change how they speak.
_HARMLESS = frozenset(
    "PIP_NO_COLOR PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONHASHSEED PYTHONUTF8 CARGO_TERM_COLOR "
    "DEBIAN_FRONTEND NPM_CONFIG_COLOR".split()
)


def is_name(text: str) -> bool:
    """Whether it can be a variable's name."""
    return _NAME.fullmatch(text) is not None


def rules_bash(name: str) -> bool:
    """Whether setting it changes what bash does with the script, or makes it evaluate the value."""
    return name in _OF_BASH or _SHELLS.match(name) is not None


def rules_programs(name: str) -> bool:
    """Whether programs that find it in their environment may do other things because of it."""
    return name not in _HARMLESS and (
        rules_bash(name) or is_dangerous(name) or _OF_PROGRAMS.fullmatch(name) is not None
    )


def is_obeyed_unexported(name: str) -> bool:
    """As `rules_programs`, where the script only assigns: what the sandbox has exported before stays exported."""
    return rules_bash(name) or is_dangerous(name) or name in NON_INTERACTIVE


def is_harmless_locale(name: str, text: str | None) -> bool:
    """LC_ALL=C and the like, which scripts often set for sort and grep."""
    return (name == "LANG" or name.startswith("LC_")) and text in _HARMLESS_LOCALES
