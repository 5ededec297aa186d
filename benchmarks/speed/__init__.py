"""How long things take, and how much memory."""
