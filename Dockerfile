# A static binary in an empty image, run by a user without rights. See README.md, "Run it as a service".
FROM rust:1.90-alpine AS build
WORKDIR /src
# Stores over a network, such as postgres,objects: see docs/cluster.md.
ARG FEATURES=""
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked -p tepui --features "$FEATURES" && cp target/release/tepui /tepui && mkdir /data

FROM scratch
COPY --from=build /tepui /usr/bin/tepui
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV TEPUI_HOST=0.0.0.0 TEPUI_DATA_DIR=/data
VOLUME /data
EXPOSE 10000 10001 10002
# It asks where the environment says that the server listens: choose ports by TEPUI_BLOB_PORT and so on, not by flags.
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s CMD ["/usr/bin/tepui", "health"]
ENTRYPOINT ["/usr/bin/tepui"]
CMD ["serve"]
