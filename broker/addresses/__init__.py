"""Addresses, which are topics with a limit in bytes, and the PUBLISHes that wait for room in them (FC-24 to FC-26)."""
