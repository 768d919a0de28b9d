//! `exec-server cat`: bytes as they are.

use std::io::{self, Write};

use exec_client::files::ByteRange;

use super::explain::explain;
use super::{Complaints, Remote};
use crate::args::CatArgs;
use crate::exit::Outcome;

pub(super) async fn cat(remote: &Remote, args: &CatArgs) -> anyhow::Result<Outcome> {
    let mut complaints = Complaints::default();
    let range = ByteRange { offset: args.offset, length: args.length };
    for path in &args.paths {
        let cannot = |error| explain(&format!("read {}", path.display()), &error);
        let place = remote.connected.resolve(path)?;
        let mut stream = match remote.files.read_stream(&place, range).await {
            Ok(stream) => stream,
            Err(error) => {
                complaints.add(&cannot(error));
                continue;
            }
        };
        loop {
            match stream.next().await {
                Ok(Some(bytes)) => io::stdout().lock().write_all(&bytes)?,
                Ok(None) => break,
                Err(error) => {
                    complaints.add(&cannot(error));
                    break;
                }
            }
        }
        io::stdout().lock().flush()?;
    }
    Ok(complaints.outcome())
}
