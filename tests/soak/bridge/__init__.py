"""Soaks a bridge: two brokers, a bad network between them, kill -9 of both, and ledgers outside."""
