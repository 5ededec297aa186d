"""Parts of experiments: models and data, sampling protocols, the paper's numbers, and what is read off stored rows."""
