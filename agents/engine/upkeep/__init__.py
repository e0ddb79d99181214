"""What is done once in a while: the sweep, the sums of past days, growth."""
