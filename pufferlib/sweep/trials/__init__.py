"""One trial: what it is trained by, the process that trains, its learning curve, and when it ends early."""
