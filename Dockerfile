# An image with the command `sotto` and nothing else. No secret is needed to build it, none is in a layer.
# Linted (hadolint); not yet built where it was written, which has no container runtime.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /sotto
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY src src
COPY config config
# Not compiled, but named in Cargo.toml.
COPY tests tests
COPY benches benches
# --locked: exactly the versions of Cargo.lock. The image brings the C compiler that cryptography and SQLite need.
RUN cargo build --locked --release --package sotto --bin sotto

FROM debian:bookworm-slim
# The roots of trust are compiled into sotto; mount a file and set SSL_CERT_FILE to add an authority of your own.
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sotto
COPY --from=build /sotto/target/release/sotto /usr/local/bin/sotto
# Conversations, unless SOTTO_STORE_URL names a database: mount a volume here to keep them.
RUN install --directory --owner=10001 --mode=700 /data
ENV SOTTO_STORE_URL=sqlite:/data/sotto.db
VOLUME /data
# A number, so that a cluster can see that it is not root.
USER 10001
ENTRYPOINT ["/usr/local/bin/sotto"]
CMD ["--help"]
