//! The rules as a whole, through the facade.
