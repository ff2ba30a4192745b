"""What the TAB key completes on a command line of `puffer`: each shell's script, and the words that it asks for."""
