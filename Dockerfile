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
# --locked: exactly the versions of Cargo.lock. The image brings the C compiler that the cryptography needs.
RUN cargo build --locked --release --package sotto --bin sotto

FROM debian:bookworm-slim
# The roots of trust are compiled into sotto; mount a file and set SSL_CERT_FILE to add an authority of your own.
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sotto
COPY --from=build /sotto/target/release/sotto /usr/local/bin/sotto
# A number, so that a cluster can see that it is not root.
USER 10001
ENTRYPOINT ["/usr/local/bin/sotto"]
CMD ["--help"]
