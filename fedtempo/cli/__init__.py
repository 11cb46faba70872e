"""The command line: reads arguments, calls the Python API, prints."""
