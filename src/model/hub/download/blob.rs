//! One file of the cache: its content, under the name of its hash.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::client::Client;
use super::failure::{Failed, Failure, Tries};
use super::promise::{Promise, header};
use crate::error::Error;
use crate::model::toy::hex;
use crate::terminal;
use sha2::{Digest, Sha256};

/// Number of bytes that are read at once.
const PIECE: usize = 1 << 18;

/// A blob that shall be in the cache.
#[derive(Debug)]
pub(super) struct Blob<'b> {
    /// The folder of the cache.
    pub(super) root: &'b Path,
    /// The folder of the repository.
    pub(super) repo: &'b Path,
    /// What the hub says about it.
    pub(super) promise: &'b Promise,
}

impl Blob<'_> {
    /// How many of its bytes are in the cache.
    pub(super) fn length(&self) -> u64 {
        let length = |path| fs::metadata(path).map(|file| file.len()).ok();
        let found = self.paths().into_iter().find_map(length).unwrap_or(0);
        self.promise.size.map_or(found, |size| found.min(size))
    }

    /// Where it lies, and where it grows.
    fn paths(&self) -> [PathBuf; 2] {
        ["", ".incomplete"]
            .map(|end| self.repo.join("blobs").join(format!("{}{end}", self.promise.etag)))
    }

    /// Downloads the blob from `url`, unless it is there. `reached` is told how many bytes
    /// are.
    ///
    /// # Errors
    /// If it does not come as promised, or the cache cannot be written to.
    pub(super) fn obtain(
        &self,
        client: &Client,
        url: &str,
        reached: &mut dyn FnMut(u64),
    ) -> Result<(), Failed> {
        let folder = self.repo.join("blobs");
        let [path, partial] = self.paths();
        fs::create_dir_all(&folder).map_err(|e| cannot_write(&folder, &e))?;
        let _lock = self.lock()?;
        if self.is_there(&path) {
            return Ok(());
        }
        loop {
            let continued = self.fill(client, url, &partial, reached)?;
            let Some(wrong) = self.wrong_hash(&partial)? else { break };
            fs::remove_file(&partial).map_err(|e| cannot_write(&partial, &e))?;
            // What an earlier download left may have been bytes of something else.
            if !continued {
                return Err(Failed::Hub(wrong));
            }
        }
        fs::rename(&partial, &path).map_err(|e| cannot_write(&path, &e).into())
    }

    /// Holds off other downloads of this file, those by the hub's own tools included.
    fn lock(&self) -> Result<File, Error> {
        let name = self.repo.file_name().unwrap_or_default();
        let folder = self.root.join(".locks").join(name);
        let path = folder.join(format!("{}.lock", self.promise.etag));
        let fail = |e: io::Error| cannot_write(&path, &e);
        fs::create_dir_all(&folder).map_err(fail)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                terminal::say(format_args!("waiting for another download: {}", path.display()));
                file.lock().map_err(fail)?;
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        Ok(file)
    }

    /// Whether the blob is there, at its full length.
    fn is_there(&self, path: &Path) -> bool {
        let length = fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|f| f.len());
        length.is_some_and(|length| self.promise.size.is_none_or(|size| size == length))
    }

    /// Downloads what the partial file lacks; returns whether it had a beginning.
    fn fill(
        &self,
        client: &Client,
        url: &str,
        partial: &Path,
        reached: &mut dyn FnMut(u64),
    ) -> Result<bool, Failed> {
        let fail = |e: io::Error| Failed::Here(cannot_write(partial, &e));
        let mut file = OpenOptions::new().create(true).append(true).open(partial).map_err(fail)?;
        let continued = file.metadata().map_err(fail)?.len() > 0;
        let mut tries = Tries::default();
        loop {
            let have = file.metadata().map_err(fail)?.len();
            reached(have);
            match self.promise.size {
                Some(size) if have == size => break,
                // It is not the beginning of this file.
                Some(size) if have > size => file.set_len(0).map_err(fail)?,
                _ => {}
            }
            let have = file.metadata().map_err(fail)?.len();
            let received = self.receive(client, url, &mut file, have, reached);
            if file.metadata().map_err(fail)?.len() > have {
                tries.renew();
            }
            match received {
                Ok(()) => break,
                Err(Received::Failed(failed)) => return Err(failed),
                Err(Received::Failure(failure)) => tries.wait(failure).map_err(Failed::Hub)?,
            }
        }
        file.sync_all().map_err(fail)?;
        Ok(continued)
    }

    /// Appends one answer to the file, which has `have` bytes.
    fn receive(
        &self,
        client: &Client,
        url: &str,
        file: &mut File,
        mut have: u64,
        reached: &mut dyn FnMut(u64),
    ) -> Result<(), Received> {
        let here = |e: io::Error| Failed::Here(Error::file(self.repo, cannot(&e)));
        let response = client.get(url, have).map_err(Received::Failure)?;
        let range = header(response.headers(), "content-range").unwrap_or_default();
        match response.status().as_u16() {
            206 if range.starts_with(&format!("bytes {have}-")) => {}
            200 => {
                file.set_len(0).map_err(here)?;
                have = 0;
            }
            status if have == 0 => {
                let what = format!("it does not send the file (status {status})");
                return Err(Failed::Hub(what).into());
            }
            _ => {
                file.set_len(0).map_err(here)?;
                let what = format!("it does not continue at byte {have}");
                return Err(Received::Failure(Failure::Passing(what, None)));
            }
        }
        let length = header(response.headers(), "content-length");
        let length = length.and_then(|n| n.parse::<u64>().ok()).map(|length| have + length);
        if let (Some(size), Some(length)) = (self.promise.size, length)
            && size != length
        {
            return Err(Failed::Hub(wrong_length(size, length)).into());
        }
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; PIECE];
        loop {
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(Received::Failure(Failure::Passing(cut(have, &e), None))),
            };
            have += read as u64;
            if let Some(size) = self.promise.size.filter(|&size| have > size) {
                return Err(Failed::Hub(wrong_length(size, have)).into());
            }
            file.write_all(&buffer[..read]).map_err(here)?;
            reached(have);
        }
        match self.promise.size.or(length) {
            Some(size) if have < size => {
                let what = format!("the connection ended after {have} of {size} bytes");
                Err(Received::Failure(Failure::Passing(what, None)))
            }
            _ => Ok(()),
        }
    }

    /// A clause that says how the hash of a complete file differs from the promised one.
    fn wrong_hash(&self, partial: &Path) -> Result<Option<String>, Error> {
        let Some(wanted) = self.promise.sha256() else { return Ok(None) };
        let found = sha256_of(partial).map_err(|e| Error::file(partial, cannot(&e)))?;
        Ok((found != wanted).then(|| {
            format!("its SHA-256 is {found}, not {wanted} as promised; it was discarded: try again")
        }))
    }
}

/// Why an answer was not received.
enum Received {
    Failure(Failure),
    Failed(Failed),
}

impl From<Failed> for Received {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn wrong_length(promised: u64, found: u64) -> String {
    format!("it sends {found} bytes or more, not {promised} as promised")
}

fn cut(have: u64, why: &io::Error) -> String {
    format!("the connection broke after {have} bytes: {why}")
}

fn cannot(why: &io::Error) -> String {
    format!("cannot be written: {why}")
}

fn cannot_write(path: &Path, why: &io::Error) -> Error {
    Error::file(path, cannot(why))
}
