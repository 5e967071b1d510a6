"""The directories that every box has, as its commands know them. The agent, which runs inside, has its own copy."""

DATA = "/mnt/data"  # where commands start; its files outlive the box
HOME = "/home/agent"
TEMPORARY = "/tmp"
OWN = (DATA, HOME, TEMPORARY)
# Under which names the lasting ones lie in a box's directory on the host.
LASTING = {DATA: "data", HOME: "home"}
