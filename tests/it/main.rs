//! The one test binary: each file is a subject.

mod checkpoint;
mod cli_generate;
mod cli_inspect;
mod cli_list;
mod cli_support;
mod method;
