"""What limits a device in a window, from its time accounting."""
