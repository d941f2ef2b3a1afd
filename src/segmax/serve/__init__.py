"""The service: what `segmax serve` runs. Start reading at `app.py`, which follows a request from start to end."""
