//! Every bound of this crate, with its arithmetic.

use exec_protocol::limits::{JSON_VALUES_MAX, MESSAGE_BYTES_MAX};

/// Largest configuration file.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Text of all layers together. Each byte is two at most in JSON, and in rare cases six.
pub const LAYERS_BYTES_MAX: usize = 10 << 20;

const _: () = assert!(LAYERS_BYTES_MAX * 6 + (1 << 20) <= MESSAGE_BYTES_MAX);

/// Most capability roots in one request.
pub const ROOTS_MAX: usize = 128;

/// How far a search for capabilities goes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Directories below each other, the root not counted.
    pub depth_max: usize,
    /// Directories of one root, itself included.
    pub directories_max: usize,
    /// Names in all directories of one root.
    pub entries_max: usize,
    /// One file.
    pub file_bytes_max: u64,
    /// All files of one root.
    pub root_bytes_max: u64,
    /// One answer, in JSON.
    pub answer_bytes_max: usize,
    /// JSON values in one answer.
    pub answer_values_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth_max: 6,
            directories_max: 2000,
            entries_max: 20_000,
            file_bytes_max: 1 << 20,
            root_bytes_max: 16 << 20,
            // What is not counted, brackets and ids, has to fit as well.
            answer_bytes_max: MESSAGE_BYTES_MAX - (4 << 20),
            answer_values_max: JSON_VALUES_MAX - 4096,
        }
    }
}
