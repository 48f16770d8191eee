# enrich with Spark, Delta's jars and the class-data archive; runs as a user without rights, without the network.
#
#   packaging/collect                            # the wheels and the jars, into dist/image
#   docker build -t enrich .
#   docker run --rm -v "$PWD:/project" --user "$(id -u)" enrich --target prod run
#
# Where there is no docker, packaging/build-root makes the same in an empty directory.
FROM debian:trixie-slim
ARG PACKAGES="python3-venv openjdk-21-jre-headless"
RUN apt-get update \
    && apt-get install -y --no-install-recommends $PACKAGES \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,target=/context sh /context/packaging/install /context/dist/image
ENV HOME=/home/enrich LANG=C.UTF-8 ENRICH_CACHE=/var/cache/enrich
USER 10001:10001
WORKDIR /project
ENTRYPOINT ["enrich"]
CMD ["--help"]
