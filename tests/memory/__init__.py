"""What clients can make the broker keep: a test for each table, with its bound in bytes."""
