"""What runs left on disk, and a training as it goes, for people to look at: lists, plots, a page, a profile."""
