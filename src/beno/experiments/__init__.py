"""The paper's tables as data, a queue that fills them, and the pages that are made of what it finds."""
