"""Programs for developers of this project, besides the tests."""
