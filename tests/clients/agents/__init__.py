"""One small program for each client, all with the same orders; what they are stands in tests/clients/agent.py."""
