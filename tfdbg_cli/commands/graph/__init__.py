"""Commands about nodes: what they are, where from, and who reads them."""
