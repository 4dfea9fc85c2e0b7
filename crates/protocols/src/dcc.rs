//! DCC, as `dccproc`, `dccifd` and `cdcc` speak it.
