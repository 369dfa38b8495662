"""What a model is fed: solved problems as tensors, augmented and side by side."""
