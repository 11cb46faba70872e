"""Other projects that do the same, each in an environment of its own, and what is measured against them."""
