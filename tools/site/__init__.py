"""Parts of the site that are generated from the program: calendars, code, tables and reference pages."""
