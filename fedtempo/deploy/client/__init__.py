"""A client of a deployment: its settings, its data and its answers to a server's calls, independent of any network."""
