"""The program inside a box, sent there as source: standard library only, Python 3.9 and newer, as few imports as possible."""
