//! rspamd's fuzzy storage, as its `fuzzy_check` speaks it.
