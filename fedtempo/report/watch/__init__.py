"""A local page that follows runs while other processes write them."""
