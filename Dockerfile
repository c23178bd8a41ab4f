# syntax=docker/dockerfile:1

FROM rust:1.95.0-alpine@sha256:606fd313a0f49743ee2a7bd49a0914bab7deedb12791f3a846a34a4711db7ed2 AS toolchain

# Compiles the static program. A release has compiled it already, for both architectures, and replaces
# this stage with a folder of the same layout: scripts/release/image.sh.
FROM toolchain AS program
ARG TARGETARCH
WORKDIR /src
COPY . .
# The caches are not part of the image, so the program is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,id=target-$TARGETARCH,target=/src/target \
    cargo build --release --locked --package notary-orders && \
    install -d -m 0700 "/$TARGETARCH/data" && \
    cp target/release/notary-orders LICENSE-* "/$TARGETARCH/"

FROM scratch
ARG TARGETARCH
LABEL org.opencontainers.image.title="notary-orders" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# The root certificates of TLS, from an image whose digest is known.
COPY --from=toolchain /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=program /${TARGETARCH}/*LICEN* /usr/share/doc/notary-orders/
COPY --from=program /${TARGETARCH}/notary-orders /usr/local/bin/

# A numeric user, so that container runtimes can check that it is not root. The service writes only
# to this folder: with a read-only root file system, mount a volume or a tmpfs of this user there.
COPY --from=program --chown=10001:10001 --chmod=0700 /${TARGETARCH}/data /var/lib/notary-orders
USER 10001:10001
ENV NOTARY_ORDERS_LISTEN=0.0.0.0:8080 \
    NOTARY_ORDERS_OPS_LISTEN=0.0.0.0:8081 \
    NOTARY_ORDERS_DATA_DIR=/var/lib/notary-orders
# The API, and the private port of /healthz, /readyz and /metrics.
EXPOSE 8080 8081

# Checks the process, not its dependencies: a restart would not repair them.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["/usr/local/bin/notary-orders", "health"]

# Requests in progress finish first. `--stop-timeout` must exceed NOTARY_ORDERS_DRAIN_SECS and
# NOTARY_ORDERS_SHUTDOWN_GRACE_SECS together.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/notary-orders"]
CMD ["serve"]
