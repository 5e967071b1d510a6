"""HTTP: requests in, OpenAI's shapes out. An edge without logic: it parses, calls the layers below, and serialises what they return."""
