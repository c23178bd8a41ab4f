# syntax=docker/dockerfile:1

FROM rust:1.95.0-slim-trixie AS build
WORKDIR /src
COPY . .
# The caches stay on the machine that builds, so the program is moved out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package notary-orders && cp target/release/notary-orders /usr/local/bin/

FROM debian:trixie-slim
LABEL org.opencontainers.image.title="notary-orders" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# The roots that TLS trusts.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/bin/notary-orders /usr/local/bin/

# A number, so that whoever runs the image can see that it is not root. The folder is all that is written to: with a
# read-only root file system, a volume or a tmpfs of this user is mounted there.
RUN install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/notary-orders
USER 10001:10001
ENV NOTARY_ORDERS_LISTEN=0.0.0.0:8080 \
    NOTARY_ORDERS_OPS_LISTEN=0.0.0.0:8081 \
    NOTARY_ORDERS_DATA_DIR=/var/lib/notary-orders
# The API, and the private port of /healthz, /readyz and /metrics.
EXPOSE 8080 8081

# Whether the process answers, not whether its dependencies do: starting it anew would not bring them back. Bash speaks
# TCP, so nothing is installed for this.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --start-interval=1s \
    CMD ["bash", "-c", "exec 3<>\"/dev/tcp/127.0.0.1/${NOTARY_ORDERS_OPS_LISTEN##*:}\" && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]

# Requests that run are finished; `--stop-timeout` must be above NOTARY_ORDERS_SHUTDOWN_GRACE_SECS.
STOPSIGNAL SIGTERM
ENTRYPOINT ["notary-orders"]
CMD ["serve"]
