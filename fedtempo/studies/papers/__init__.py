"""The papers' figures and tables, and what was measured beside them."""
