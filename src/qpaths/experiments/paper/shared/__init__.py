"""What several experiments share: models and data, sampling protocols, the paper's numbers, and figures."""
