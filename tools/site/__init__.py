"""What the site is made of besides the pages in docs/: pictures, code and tables that come from the program."""
