"""EXACT, the loss that trains a classifier's expected accuracy, and the losses beside it."""
