"""A command that fetches a URL, on machines that have no curl."""

import shlex

_PROGRAM = """\
import sys, urllib.error, urllib.request
try:
    answer = urllib.request.urlopen(sys.argv[1])
except urllib.error.HTTPError as error:
    answer = error
print(answer.read().decode().strip())
"""


def fetching(url: str) -> str:
    """Prints the body of the answer, whatever its status is. It goes through the proxy that the variables name."""
    return shlex.join(["python3", "-c", _PROGRAM, url])
