"""What one sees of a sweep: while it runs, and the files and the summary that it leaves."""
