"""HTTP: requests in, OpenAI's shapes out. An edge without logic: it parses, asks the rooms below, and writes down what they say."""
