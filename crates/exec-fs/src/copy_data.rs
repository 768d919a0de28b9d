//! The content of a file into another, by the fastest way there is: shared blocks, then a copy
//! within the kernel that leaves holes as holes, then through a buffer.

use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::error::Error;
use crate::limits::COPY_PIECE_BYTES;
use crate::resolve::retry;
use crate::write::write_all;

/// Copies `size` bytes of the source to an empty file. Size 0 means that it is not known, as for
/// everything in `/proc`: then up to the end.
pub(crate) fn copy_data(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
    size: u64,
    cancel: &Cancel,
) -> Result<(), Error> {
    if size == 0 {
        return copy_buffered(source, copy, u64::MAX, cancel);
    }
    if retry(|| rustix::fs::ioctl_ficlone(copy, source)).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    while at < size {
        let Some((start, end)) = data(source, at, size)? else { break };
        if !copy_range(source, copy, start, end, cancel)? {
            // From where it is, to a file that cannot be seeked in perhaps.
            seek(source, start)?;
            if start > 0 {
                seek(copy, start)?;
            }
            copy_buffered(source, copy, end - start, cancel)?;
        }
        at = end;
    }
    match retry(|| rustix::fs::ftruncate(copy, size)) {
        // A device has no size.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The next part of the file that is no hole.
fn data(source: BorrowedFd<'_>, at: u64, size: u64) -> Result<Option<(u64, u64)>, Error> {
    let start = match retry(|| rustix::fs::seek(source, SeekFrom::Data(at))) {
        Ok(start) => start,
        // Nothing but a hole up to the end.
        Err(Errno::NXIO) => return Ok(None),
        // The file system knows nothing of holes.
        Err(_) => return Ok(Some((at, size))),
    };
    let end = retry(|| rustix::fs::seek(source, SeekFrom::Hole(start)))?;
    Ok(Some((start, end.min(size))).filter(|(start, end)| start < end))
}

/// Copies within the kernel. Returns false if it cannot, having done nothing.
fn copy_range(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
    start: u64,
    end: u64,
    cancel: &Cancel,
) -> Result<bool, Error> {
    let (mut read, mut written) = (start, start);
    while read < end {
        cancel.check()?;
        let len = usize::try_from(end - read).map_or(COPY_PIECE_BYTES, |n| n.min(COPY_PIECE_BYTES));
        let copied = retry(|| {
            rustix::fs::copy_file_range(source, Some(&mut read), copy, Some(&mut written), len)
        });
        match copied {
            // It became shorter in the meantime, or is one of those files that only reading fills.
            Ok(0) => return Ok(read > start),
            Ok(_) => {}
            Err(
                Errno::NOSYS
                | Errno::XDEV
                | Errno::INVAL
                | Errno::PERM
                | Errno::OPNOTSUPP
                | Errno::BADF,
            ) if read == start => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn copy_buffered(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
    mut left: u64,
    cancel: &Cancel,
) -> Result<(), Error> {
    let mut buffer = vec![0; COPY_PIECE_BYTES];
    while left > 0 {
        cancel.check()?;
        let len = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        match retry(|| rustix::io::read(source, &mut buffer[..len]))? {
            0 => break,
            got => {
                write_all(copy, &buffer[..got])?;
                left -= got as u64;
            }
        }
    }
    Ok(())
}

fn seek(fd: BorrowedFd<'_>, at: u64) -> Result<(), Error> {
    retry(|| rustix::fs::seek(fd, SeekFrom::Start(at)))?;
    Ok(())
}
