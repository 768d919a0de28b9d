//! All that crosses the wire: envelope, methods, their parameters and results. Pure.
