# syntax=docker/dockerfile:1

FROM rust:1.95.0-slim-trixie AS build
WORKDIR /src
COPY . .
# The caches are not part of the image, so the program is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package notary-orders && cp target/release/notary-orders /usr/local/bin/

FROM debian:trixie-slim
LABEL org.opencontainers.image.title="notary-orders" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# The root certificates of TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/bin/notary-orders /usr/local/bin/

# A numeric user, so that container runtimes can check that it is not root. The service writes only
# to this folder: with a read-only root file system, mount a volume or a tmpfs of this user there.
RUN install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/notary-orders
USER 10001:10001
ENV NOTARY_ORDERS_LISTEN=0.0.0.0:8080 \
    NOTARY_ORDERS_OPS_LISTEN=0.0.0.0:8081 \
    NOTARY_ORDERS_DATA_DIR=/var/lib/notary-orders
# The API, and the private port of /healthz, /readyz and /metrics.
EXPOSE 8080 8081

# Checks the process, not its dependencies: a restart would not repair them. Bash can use TCP, so
# the check needs no other program.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --start-interval=1s \
    CMD ["bash", "-c", "exec 3<>\"/dev/tcp/127.0.0.1/${NOTARY_ORDERS_OPS_LISTEN##*:}\" && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]

# Requests in progress finish first. `--stop-timeout` must exceed NOTARY_ORDERS_DRAIN_SECS and
# NOTARY_ORDERS_SHUTDOWN_GRACE_SECS together.
STOPSIGNAL SIGTERM
ENTRYPOINT ["notary-orders"]
CMD ["serve"]
