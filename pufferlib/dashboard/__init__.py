"""The dashboard of a run: a panel or lines, the report behind them, scores, and output to a terminal."""
