"""The description of the shell tool that a model is shown. Pure."""

from collections.abc import Mapping, Sequence

from limpet.core.ports import Probe
from limpet.egress.network_note import MOST_HOSTS, NO_NETWORK

SKILLS = "/skills"
NO_BASH = "There is no bash: write for a POSIX shell (no arrays, no [[ ]], no <( ), no {a,b}). "
# Of a shell that the client runs.
LOCAL_SHELL = (
    "Runs shell commands on the user's own machine and gives back stdout, stderr and exit code of each. "
    "Assume a POSIX shell and nothing else installed."
)


def shell_description(
    *,
    is_local: bool,
    seconds: int,
    characters: int,
    has_network: bool,
    data: str,
    probe: Probe = Probe(works=True, detail=""),  # noqa: B008  # frozen
    skills: Sequence[Mapping[str, str]] = (),
    files: Sequence[str] = (),
    network_note: str = NO_NETWORK,
    secrets: Mapping[str, Sequence[str]] = {},  # read only
) -> str:
    """`seconds` is the limit of one command, `characters` what it gets back of its output, `data` the working directory; `probe`
    says which programs were found and what runs commands; `skills` have a name and a description, `files` are the paths of those that
    the user gave, `network_note` is that of the container's policy; `secrets` are variables, with the hosts that each is for."""
    if is_local:
        return LOCAL_SHELL
    network = "The network can be reached." if has_network else _network(network_note, secrets)
    return (
        f"Runs commands with {probe.shell} in a Linux container of your own and gives back stdout, stderr and exit code of each. "
        f"{NO_BASH if probe.shell == 'sh' else ''}The working directory is {data}. "
        "Files, and processes that you start in the background, stay from call to call and "
        "from turn to turn; the working directory, variables and functions do not: each command is a fresh shell that starts in "
        f"{data}. Files that you write below {data} can be downloaded by the user. "
        f"A command is stopped after {seconds} seconds; run what takes longer in the background, with its output in a file. "
        f"You see at most {characters} characters of a command's output, its head and tail: write long output to a file under "
        f"{data} and look into that with grep, head or tail. There is no terminal and no standard input: use flags that avoid prompts. "
        f"{network}{_installed(probe.programs, data)}{_given(files)}{_skilled(skills)}"
    )


def _installed(programs: Sequence[str], data: str) -> str:
    if not programs:
        return ""
    return (
        f" Among what is installed: {', '.join(programs)}. You are not root and the system is read-only: there is no sudo, apt or docker; "
        f"pip install and npm install -g install into your home. {data} and your home last as long as the container; /tmp and running "
        "processes can end earlier."
    )


def _network(note: str, secrets: Mapping[str, Sequence[str]]) -> str:
    if secrets and note == NO_NETWORK:
        note = "There is no network but for requests that carry one of the credentials below."
    return f"{note}{_secrets(secrets)}"


def _secrets(secrets: Mapping[str, Sequence[str]]) -> str:
    if not secrets:
        return ""
    named = "; ".join(f"${name} for {', '.join(hosts[:MOST_HOSTS])}" for name, hosts in secrets.items())
    return (
        f" These environment variables stand for credentials: {named}. Use them as they are, in headers of HTTPS requests or as the "
        "password of a user to those hosts alone: what a variable holds here is a placeholder, and the credential takes its place on the "
        "way. It cannot be read, and nothing is wrong with it: do not look for its value."
    )


def _given(files: Sequence[str]) -> str:
    if not files:
        return ""
    return " The user gave these files: " + ", ".join(files) + "."


def _skilled(skills: Sequence[Mapping[str, str]]) -> str:
    if not skills:
        return ""
    lines = [
        f"- {skill['name']} ({SKILLS}/{skill['name']}): {' '.join(skill['description'].split())}" for skill in skills
    ]
    return (
        "\nSkills are folders of instructions and programs, read-only. When one fits the task, read its SKILL.md before you begin:\n"
        + "\n".join(lines)
    )
