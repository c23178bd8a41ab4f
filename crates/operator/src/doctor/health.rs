//! The check that the supervisor of a container runs: the image has no other program for it.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    adapters::OPS_LISTEN,
    address::{local_address, resolve},
    settings::Settings,
};

/// Time limit for each step. Supervisors usually wait for 3 seconds or more.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the service on this machine for `/healthz`. Fails if the answer is not 200.
pub(crate) async fn check(settings: &Settings) -> Result<()> {
    let address = local_address(resolve(&settings.ops_listen).await.context(OPS_LISTEN)?);
    // The command does nothing else, so it may block.
    let answer = ask(address).with_context(|| format!("no answer at {address}"))?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "the answer at {address} is {:?}", answer.trim());
    Ok(())
}

/// Returns the first line of the answer.
fn ask(address: SocketAddr) -> io::Result<String> {
    let mut service = TcpStream::connect_timeout(&address, TIMEOUT)?;
    service.set_read_timeout(Some(TIMEOUT))?;
    service.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(service.take(64)).read_line(&mut line)?;
    Ok(line)
}
