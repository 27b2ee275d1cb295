"""One client's connection: it reads and handles packets, replies, and pauses reading."""
