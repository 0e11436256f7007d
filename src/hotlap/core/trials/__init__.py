"""What steers measuring: two sides in turns until the answer is sure, and the search for the commit that changed a case."""
