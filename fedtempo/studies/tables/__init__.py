"""Tables for papers: runs arranged by strategies and settings, as LaTeX, Markdown or CSV."""
