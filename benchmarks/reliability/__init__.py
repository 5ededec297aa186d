"""What happens when something is hard, or goes wrong."""
