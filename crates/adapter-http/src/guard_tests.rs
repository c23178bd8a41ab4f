use std::net::{TcpListener, TcpStream};

use actix_web::test::TestRequest;

use super::*;

fn connections() -> Arc<Connections> {
    Connections::new(2, vec!["192.0.2.0/24".parse().unwrap()])
}

/// Returns the two sides of a connection.
fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nonblocking(true).unwrap();
    (listener.accept().unwrap().0.into(), client)
}

fn register(connections: &Arc<Connections>, socket: Socket, address: &str) -> Arc<Connection> {
    connections.register(Some(socket), Some(SocketAddr::new(address.parse().unwrap(), 4711)))
}

/// Opens a connection, unless the address has too many.
fn open(connections: &Arc<Connections>, address: &str) -> Option<Arc<Connection>> {
    Some(register(connections, pair().0, address)).filter(|connection| !connection.must_close())
}

fn begin(connection: &Arc<Connection>, request: TestRequest) -> Option<RequestInProgress> {
    connection.begin(request.to_srv_request().head())
}

/// Returns whether the client sees the end of its connection.
fn has_ended(client: &TcpStream) -> bool {
    matches!(client.peek(&mut [0]), Ok(0))
}

#[tokio::test]
async fn address_has_a_limit_of_connections() {
    for (address, neighbour) in [
        ("203.0.113.1", "203.0.113.2"),
        ("::ffff:203.0.113.1", "203.0.113.2"),
        ("2001:db8:0:1::1", "2001:db8:0:2::1"),
    ] {
        let connections = connections();
        let held = [open(&connections, address).unwrap(), open(&connections, address).unwrap()];
        assert!(open(&connections, address).is_none(), "{address}");
        assert!(open(&connections, neighbour).is_some(), "{neighbour}");
        drop(held);
        assert_eq!(connections.open(), 0);
        assert!(open(&connections, address).is_some(), "{address}");
    }
    let connections = connections();
    let held = open(&connections, "2001:db8::1").zip(open(&connections, "2001:db8::2"));
    assert!(held.is_some() && open(&connections, "2001:db8::ffff:3").is_none());
}

#[tokio::test]
async fn request_of_a_refused_connection_is_not_carried_out() {
    let connections = connections();
    let _held = [(); 2].map(|()| open(&connections, "203.0.113.1").unwrap());
    let too_many = register(&connections, pair().0, "203.0.113.1");
    let without_file = connections.register(None, Some("203.0.113.9:4711".parse().unwrap()));
    for refused in [too_many, without_file] {
        assert!(begin(&refused, TestRequest::default()).is_none() && refused.must_close());
    }
}

#[tokio::test]
async fn loopback_and_trusted_proxies_have_no_limit() {
    let connections = connections();
    for address in ["127.0.0.1", "::1", "192.0.2.7"] {
        let held: Vec<_> = (0..5).map(|_| open(&connections, address)).collect();
        assert!(held.iter().all(Option::is_some), "{address}");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_without_request_ends_after_75_seconds() {
    let connections = connections();
    let (server, client) = pair();
    let connection = register(&connections, server, "203.0.113.1");
    let idle = async |time| {
        sleep(time).await;
        has_ended(&client)
    };
    assert!(!idle(KEEP_ALIVE).await);
    let request = begin(&connection, TestRequest::default());
    assert!(!idle(10 * KEEP_ALIVE).await);
    drop(request);
    assert!(!idle(KEEP_ALIVE).await);
    assert!(idle(2 * WATCH_INTERVAL).await);
}

#[tokio::test]
async fn few_connections_have_large_steps() {
    let connections = connections();
    let open = |is_large| {
        let connection = connections.register(None, None);
        connection.open(is_large);
        connection
    };
    let small = open(false);
    let mut held: Vec<_> = (0..LARGE_STEPS).map(|_| open(true)).collect();
    assert!(held.iter().all(|connection| connection.state().has_large_steps));
    for other in [small, open(true)] {
        assert!(!other.state().has_large_steps);
    }
    drop(held.pop());
    assert!(open(true).state().has_large_steps);
}

#[tokio::test]
async fn no_request_follows_chunks_or_an_upgrade() {
    for header in [("transfer-encoding", "chunked"), ("upgrade", "h2c")] {
        let connections = connections();
        let connection = open(&connections, "203.0.113.1").unwrap();
        drop(begin(&connection, TestRequest::default()).unwrap());
        assert!(!connection.must_close());
        drop(begin(&connection, TestRequest::default().insert_header(header)).unwrap());
        assert!(connection.must_close(), "{header:?}");
        assert!(begin(&connection, TestRequest::default()).is_none(), "{header:?}");
    }
}

#[tokio::test]
async fn no_request_follows_one_that_closes_the_connection() {
    use actix_web::http::Version;
    let plain = TestRequest::default;
    let with = |value| plain().insert_header(("connection", value));
    for (last, closes) in [
        (with("close"), true),
        (with("Close"), true),
        (with("TE, close"), true),
        (with("keep-alive").append_header(("connection", "close")), true),
        (plain().version(Version::HTTP_10), true),
        (with("keep-alive"), false),
        (with("closed"), false),
    ] {
        let connection = open(&connections(), "203.0.113.1").unwrap();
        let request = last.to_srv_request();
        drop(connection.begin(request.head()).unwrap());
        assert_eq!(connection.must_close(), closes, "{:?}", request.head());
        assert_eq!(begin(&connection, plain()).is_none(), closes, "{:?}", request.head());
    }
}

#[tokio::test]
async fn head_behind_an_unsent_answer_ends_the_connection() {
    let connections = connections();
    let (server, client) = pair();
    let connection = register(&connections, server, "203.0.113.1");
    drop(begin(&connection, TestRequest::default()).unwrap());
    drop(begin(&connection, TestRequest::default()).unwrap());
    connection.has_read(Some(100));
    drop(begin(&connection, TestRequest::default().method(Method::HEAD)).unwrap());
    assert!(!has_ended(&client));
    assert!(begin(&connection, TestRequest::default()).is_none());
    assert!(has_ended(&client));
}

#[tokio::test]
async fn upgrade_behind_an_unsent_answer_ends_the_connection() {
    let (server, client) = pair();
    let connection = register(&connections(), server, "203.0.113.1");
    let upgrade =
        || TestRequest::default().insert_header(("connection", "Upgrade, HTTP2-Settings"));
    drop(begin(&connection, TestRequest::default()).unwrap());
    assert!(begin(&connection, upgrade()).is_none() && has_ended(&client));
    let connection = register(&connections(), pair().0, "203.0.113.1");
    drop(begin(&connection, TestRequest::default()).unwrap());
    connection.has_read(Some(100));
    assert!(begin(&connection, upgrade()).is_some() && connection.must_close());
}
