"""How Python's tests reach the server, and what they call things there."""

import os
import uuid
from datetime import datetime, timedelta, timezone

ENDPOINT = os.environ["TEPUI_ENDPOINT"].rstrip("/")
SECONDARY = ENDPOINT + "-secondary"
# Nodes that share a store keep messages hidden for so much longer.
CLOCK_TOLERANCE_SECONDS = int(os.environ.get("TEPUI_CLOCK_TOLERANCE_MS", "0")) / 1000
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc="


def unique_name(prefix="sdk"):
    return f"{prefix}{uuid.uuid4().hex[:20]}"


def in_minutes(minutes):
    return datetime.now(timezone.utc) + timedelta(minutes=minutes)
