# An image of `segmax serve`; docs/deploying.md shows how to run it, and `make docker-test` runs these steps.
FROM debian:bookworm-slim AS builder
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
# The runtime needs no pip: it stays in an environment of its own.
RUN python3 -m venv /opt/tools && python3 -m venv --without-pip /opt/segmax
# Packages change less often than segmax does, so they have their own layer.
ARG EXTRAS="serve"
COPY pyproject.toml .ci/requirements.py ./
RUN for extra in $EXTRAS; do python3 requirements.py "$extra"; done \
    | xargs -d '\n' /opt/tools/bin/pip --python /opt/segmax/bin/python install --no-cache-dir
COPY CMakeLists.txt LICENSE README.md ./
COPY bindings bindings
COPY cpp cpp
COPY src src
RUN /opt/tools/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /build/wheels . \
    && /opt/tools/bin/pip --python /opt/segmax/bin/python install --no-cache-dir --no-deps /build/wheels/*.whl \
    && find /opt/segmax -type d -name tests -prune -exec rm -r {} +

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends libstdc++6 python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home segmax \
    && install --directory --owner=segmax --group=segmax /data
COPY --from=builder /opt/segmax /opt/segmax
ENV PATH=/opt/segmax/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /data
VOLUME /data
USER segmax
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health', timeout=4)"]
# Every address of the container: the service asks for --api-keys FILE, or --no-auth, before it listens there.
ENTRYPOINT ["segmax", "serve", "--host", "0.0.0.0", "--port", "8080"]
CMD ["--help"]
