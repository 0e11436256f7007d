"""What is kept and how it is found again: bundle (the truth), catalog (an index), select, locks."""
