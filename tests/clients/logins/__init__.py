"""Third-party clients log in: by each method, over each transport, directly and behind real proxies."""
