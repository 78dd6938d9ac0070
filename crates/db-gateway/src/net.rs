//! The way to a server: TCP, a Unix socket, TLS over TCP. Never falls back from TLS to none.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::{Place, Tls, Url};
use crate::error::Error;

const CONNECTING: Duration = Duration::from_secs(10);

pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// The bare way, before anybody said a word.
pub(crate) async fn connect(url: &Url) -> Result<Stream, Error> {
    let scrub = url.scrub();
    let opening = async {
        match &url.place {
            Place::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Place::Socket(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            Place::File(_) | Place::Cluster => Err(io::Error::other("it is no single server")),
        }
    };
    tokio::time::timeout(CONNECTING, opening)
        .await
        .map_err(|_| scrub.away("nothing answered within 10 s"))?
        .map_err(|error| scrub.closed(&error, nobody_there(&error)))
}

/// Whether an error on the way to a server means that nobody is there. Who hangs up or says what nobody understands is there.
pub(crate) fn nobody_there(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, InvalidInput, Other, UnexpectedEof,
    };
    !matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | InvalidData | InvalidInput | Other | UnexpectedEof
    )
}

/// Wraps the way in TLS as the address wants it; the server has agreed to it.
pub(crate) async fn encrypt(url: &Url, stream: Stream) -> Result<Stream, Error> {
    let scrub = url.scrub();
    let (Stream::Tcp(tcp), Place::Tcp { host, .. }) = (stream, &url.place) else {
        return Err(scrub.unreachable("TLS is for TCP only"));
    };
    let config = config(url).map_err(|why| scrub.unreachable(why))?;
    let name = ServerName::try_from(host.clone())
        .map_err(|_| scrub.unreachable("the host has no name that a certificate could have"))?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    let stream = tokio::time::timeout(CONNECTING, handshake)
        .await
        .map_err(|_| scrub.away("TLS did not begin within 10 s"))?
        .map_err(|error| scrub.unreachable(format!("TLS failed: {error}")))?;
    Ok(Stream::Tls(Box::new(stream)))
}

fn config(url: &Url) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if url.tls == Tls::Unverified {
        return Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth());
    }
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = &url.roots {
        let found = CertificateDer::pem_file_iter(path)
            .map_err(|error| format!("the file of certificates: {error}"))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| format!("the file of certificates: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("the file of certificates: {error}"))?;
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// For an address that says so: whoever holds the key of the certificate may answer, whosoever it is.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
