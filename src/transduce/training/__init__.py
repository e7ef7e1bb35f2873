"""Training: prepare a corpus, choose settings, run the training loop, save the model."""
