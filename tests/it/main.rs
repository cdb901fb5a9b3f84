//! The one test binary: each file is a subject.

mod checkpoint;
mod method;
