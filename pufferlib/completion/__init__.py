"""TAB completion of `puffer`: a script for each shell, and the words for it."""
