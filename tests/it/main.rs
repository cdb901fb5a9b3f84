//! The one test binary: each file is a subject.

mod checkpoint;
mod method;
mod metrics_doc;
mod report;
mod statistics;
mod synthetic;
