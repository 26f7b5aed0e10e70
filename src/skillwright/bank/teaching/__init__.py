"""How a strong model turns episodes into skills, and failures into changes of a bank."""
