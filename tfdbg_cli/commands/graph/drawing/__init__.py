"""Small pictures of a graph: what is drawn, where it comes to lie, in characters and as SVG."""
