"""One small program for each client, all with the same orders; tests/clients/agent.py describes these."""
