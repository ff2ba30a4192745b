"""Reports on runs for people: lists, plots, a page, a profile."""
