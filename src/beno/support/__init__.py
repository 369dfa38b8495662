"""What everything else stands on: files, locks, interruptions, provenance, and the one exception for users."""
