"""Text: files, corpora, normalization, vocabularies, sentence splitting, terms. No torch here."""
