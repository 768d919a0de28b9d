//! The bounds that both ends of the wire share. What only the server decides is in its own
//! `limits.rs`.

crate::listed! { usize:
    /// Largest message, over all its fragments.
    MESSAGE_BYTES_MAX = 64 << 20;

    /// JSON values in one message: every object, array, string, number, boolean and null counts one,
    /// keys do not.
    JSON_VALUES_MAX = 262_144;

    /// Objects and arrays open at once, the outer object included.
    // `serde_json` stops at the 128th.
    JSON_DEPTH_MAX = 127;

    /// Output kept for each process, over both streams, unless the server is configured otherwise.
    RETAINED_BYTES = 1 << 20;

    /// Output chunks kept for each process.
    RETAINED_CHUNKS_MAX = 50_000;

    /// Accepted write ids remembered for each process.
    WRITE_IDS_MAX = 4096;
}

// A page of retained chunks must be a message the peer may parse: a chunk is an object of three
// members, so four values.
const _: () = assert!(RETAINED_CHUNKS_MAX * 4 + 16 <= JSON_VALUES_MAX);
// And the whole window, a third larger in base64, has to fit one message.
const _: () = assert!(RETAINED_BYTES / 3 * 4 + RETAINED_CHUNKS_MAX * 64 <= MESSAGE_BYTES_MAX);
