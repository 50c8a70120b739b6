"""Accounts again for closed windows that late rows touch."""
