"""Other people's frameworks: each file turns a workspace or tools into what one of them takes, and decides nothing itself."""
