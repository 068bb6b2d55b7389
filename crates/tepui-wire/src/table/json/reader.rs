//! A reader for flat JSON objects.
