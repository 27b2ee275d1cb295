"""`sluice top`: a running broker's sessions, groups and addresses in a terminal."""
