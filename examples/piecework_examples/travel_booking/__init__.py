"""Travel booking: flight, hotel and car are booked or compensated, then paid."""

from __future__ import annotations

from piecework_examples.travel_booking.booking import pipeline

__all__ = ["pipeline"]
