"""Pages of the site that are made from code, settings and rows of benchmarks; docs/build.py puts them in."""
