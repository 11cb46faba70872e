"""Parts of a configuration: typed fields, construction from tables, and plugins."""
