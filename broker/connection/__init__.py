"""One client's connection: bytes in, packets handled, replies, and the reasons not to read it."""
