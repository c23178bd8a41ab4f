//! A provider for tests, which answers as a test says and signs with keys that a test makes.

use std::{
    io,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use biscuit::{
    Empty,
    jwa::SignatureAlgorithm,
    jws::{Compact, Header, RegisteredHeader, Secret},
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

/// A key of ECDSA, under an identifier.
pub(crate) struct TestKey {
    pub(crate) kid: &'static str,
    pair: Arc<EcdsaKeyPair>,
}

impl TestKey {
    pub(crate) fn new(kid: &'static str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap();
        Self { kid, pair: Arc::new(pair) }
    }

    /// Returns the bytes of the public key.
    pub(crate) fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// Returns the public key as a member of a set.
    pub(crate) fn jwk(&self) -> Value {
        let [x, y] = [1..33, 33..65].map(|at| BASE64_URL_SAFE_NO_PAD.encode(&self.public()[at]));
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.kid, "x": x, "y": y })
    }

    /// Signs claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(claims, Some(self.kid))
    }

    /// Signs claims, and names no key.
    pub(crate) fn sign_unnamed(&self, claims: &Value) -> String {
        self.sign_as(claims, None)
    }

    fn sign_as(&self, claims: &Value, kid: Option<&str>) -> String {
        let secret = Secret::EcdsaKeyPair(Arc::clone(&self.pair));
        signed(claims, SignatureAlgorithm::ES256, kid, &secret)
    }
}

/// Signs claims by any algorithm.
pub(crate) fn signed(
    claims: &Value,
    algorithm: SignatureAlgorithm,
    kid: Option<&str>,
    secret: &Secret,
) -> String {
    let key_id = kid.map(str::to_owned);
    let registered = RegisteredHeader { algorithm, key_id, ..RegisteredHeader::default() };
    let token =
        Compact::<Claims, Empty>::new_decoded(Header::from(registered), Claims(claims.clone()));
    token.encode(secret).unwrap().encoded().unwrap().encode()
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Claims(Value);

impl biscuit::CompactJson for Claims {}

/// The behaviour of the provider at a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// Answers with a status, more header fields (each with its line end), and a body.
    Answer(u16, String, String),
    /// Sends a body without an end.
    EndlessBody,
    /// Sends the beginning of a body, and no more.
    SlowBody,
    /// Sends nothing.
    Silence,
    /// Closes the connection.
    Close,
}

impl Reaction {
    pub(crate) fn json(body: &Value) -> Self {
        Self::Answer(200, String::new(), body.to_string())
    }
}

pub(crate) struct TestProvider {
    pub(crate) issuer: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    document: Mutex<Option<Reaction>>,
    keys: Mutex<Option<Reaction>>,
    token: Mutex<Option<Reaction>>,
    /// The head and the body of each request.
    received: Mutex<Vec<(String, String)>>,
}

impl TestProvider {
    /// Starts a provider that has a discovery document and nothing else.
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    pub(crate) async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let issuer = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, state) = (tls.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => serve(tls.accept(stream).await?, &state).await,
                        None => serve(stream, &state).await,
                    }
                });
            }
        });
        let provider = Self { issuer, state };
        provider.has_document(&provider.document());
        provider
    }

    /// Returns an ordinary discovery document.
    pub(crate) fn document(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize?tenant=7"),
            "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"),
        })
    }

    pub(crate) fn has_document(&self, document: &Value) {
        self.on_document(Reaction::json(document));
    }

    pub(crate) fn on_document(&self, reaction: Reaction) {
        *self.state.document.lock().unwrap() = Some(reaction);
    }

    pub(crate) fn has_keys(&self, keys: &[&TestKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
        self.on_keys(Reaction::json(&json!({ "keys": keys })));
    }

    pub(crate) fn on_keys(&self, reaction: Reaction) {
        *self.state.keys.lock().unwrap() = Some(reaction);
    }

    pub(crate) fn has_token(&self, id_token: &str) {
        self.on_token(Reaction::json(&json!({ "token_type": "Bearer", "id_token": id_token })));
    }

    pub(crate) fn on_token(&self, reaction: Reaction) {
        *self.state.token.lock().unwrap() = Some(reaction);
    }

    /// Returns the heads and bodies of the requests whose first line has this text.
    pub(crate) fn received(&self, line: &str) -> Vec<(String, String)> {
        let received = self.state.received.lock().unwrap();
        let is_it = |(head, _): &&(String, String)| head.lines().next().unwrap().contains(line);
        received.iter().filter(is_it).cloned().collect()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(line) = read_request(&mut stream, state).await? {
        let reaction = match line.split(' ').nth(1).unwrap() {
            "/.well-known/openid-configuration" => &state.document,
            "/keys" => &state.keys,
            "/token" => &state.token,
            other => panic!("{other}"),
        };
        let reaction = reaction.lock().unwrap().clone();
        match reaction.unwrap_or(Reaction::Answer(404, String::new(), String::new())) {
            Reaction::Answer(status, fields, body) => {
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} -\r\n{fields}Content-Length: {length}\r\n\r\n");
                stream.write_all((head + &body).as_bytes()).await?;
            }
            Reaction::EndlessBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                loop {
                    stream.write_all(&[b' '; 4096]).await?;
                }
            }
            Reaction::SlowBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{").await?;
                std::future::pending::<()>().await;
            }
            Reaction::Silence => std::future::pending::<()>().await,
            Reaction::Close => return Ok(()),
        }
    }
    Ok(())
}

/// Returns the first line of a request, if there is one.
async fn read_request(
    stream: &mut BufReader<impl AsyncRead + Unpin>,
    state: &State,
) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let first = head.lines().next().unwrap().to_owned();
    let body = String::from_utf8(body).unwrap();
    state.received.lock().unwrap().push((head, body));
    Ok(Some(first))
}
