"""References: normalized distributions near the target, found by climbing or fitted to draws, to anneal from."""
