//! Values of properties from their text.
