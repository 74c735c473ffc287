# unbend on a CPU, with an encoder for photographs:
#   docker build -t unbend .
#   docker run --rm -v "$PWD:/work" unbend cluster photos/
FROM python:3.12-slim

# CPU builds of torch: a tenth of the size of those for CUDA.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1 \
    UNBEND_CACHE=/cache \
    OMP_WAIT_POLICY=PASSIVE

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# The ranges of pyproject.toml hold; exact pins would age with the image.
# hadolint ignore=DL3013
RUN pip install ".[encoder,plot,tables]" && rm -rf /src \
    && useradd --create-home --uid 1000 unbend && mkdir /cache /work && chown unbend /cache /work

USER 1000
WORKDIR /work
VOLUME ["/cache"]
ENTRYPOINT ["unbend"]
CMD ["--help"]
