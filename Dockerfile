# The image of the server. Three stages, so that an edit of the source does not compile DataFusion again:
#
#     docker build -t hushql .
#     docker run --rm hushql demo -c "SELECT LAPLACE(eps=1) COUNT(*) FROM adult"
#
# packaging/container runs the same commands without a container engine.

# The manifests, with empty sources. Its result changes only with the dependencies, and so does the cache of the next stage.
FROM rust:1.95-bookworm AS manifests
WORKDIR /all
COPY . .
RUN packaging/skeleton /skeleton

# All dependencies, then the program. Cargo compares times, and those of copied files are older than the skeleton's.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY --from=manifests /skeleton .
RUN cargo build --release --locked --features objects,postgres --bin hushql
COPY . .
RUN find src crates -name '*.rs' -exec touch {} + \
    && cargo build --release --locked --features objects,postgres --bin hushql \
    && packaging/image target/release/hushql /image

# The program, the libraries that it is linked with, and the certificates of authorities. No shell, no package manager.
FROM scratch
COPY --from=build /image /
USER 65534:65534
WORKDIR /var/lib/hushql
VOLUME /var/lib/hushql
EXPOSE 5432
ENTRYPOINT ["/usr/bin/hushql"]
CMD ["serve", "/var/lib/hushql/vault.db", "--listen", "0.0.0.0:5432", "--tls-self-made"]
