"""The Python API: experiments, what they return, and figures of it."""
