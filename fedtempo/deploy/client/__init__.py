"""A client of a deployment: its data, what it agrees to, and its answers to a server's calls. It knows no network."""
