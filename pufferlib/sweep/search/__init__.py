"""What proposes trials: `space` says what may vary, `protein_sampler` is the search, `proposal` how it decides."""
