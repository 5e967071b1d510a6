"""What runs inside a box, sent there as text: standard library only, Python 3.9 and newer, as few imports as can be."""
