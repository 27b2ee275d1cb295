"""How much clients may use: the quotas of users, and the memory of the process."""
