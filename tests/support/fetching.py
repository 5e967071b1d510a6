"""A command that fetches a URL, on machines that have no curl."""

import shlex

_PROGRAM = """\
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1]).read().decode().strip())
except urllib.error.HTTPError as error:
    print(error.reason)  # a refusal's body is cut short
"""


def fetching(url: str) -> str:
    """Prints the body of the answer, or why there is none. It goes through the proxy that the variables name."""
    return shlex.join(["python3", "-c", _PROGRAM, url])
