"""What developers of this project run beside the tests."""
