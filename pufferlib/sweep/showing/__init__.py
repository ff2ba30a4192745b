"""The display, the files and the report of a sweep."""
