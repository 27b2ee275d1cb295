"""What the tests of flow control share: messages, a host that takes notes, and a peer around a session."""
