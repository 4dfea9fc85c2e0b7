//! Razor, as `razor-agents` speak it.
