"""One run: its configuration, what it needs, and how it starts, stops and resumes in a folder."""
