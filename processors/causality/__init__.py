"""Orders that must hold between clocks: work begins after its submission, who waited for it returns after its end."""
