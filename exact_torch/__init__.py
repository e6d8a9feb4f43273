"""EXACT, the loss that trains expected accuracy, and the losses it is compared with."""
