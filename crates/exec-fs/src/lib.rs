//! File-system calls made on behalf of a client.
