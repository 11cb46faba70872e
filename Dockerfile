# docker build -t fedtempo .
# docker run --rm --shm-size 1g -v "$PWD:/work" fedtempo run configs/fedhusky.toml
#
# Build arguments:
#   BASE       an image with Python and pip, if you cannot reach Docker Hub
#   EXTRAS     comma-separated further extras, as in `--build-arg EXTRAS=ray,hf`; their releases are not pinned
#   PIP_FLAGS  options for pip, which say where to find PyTorch
ARG BASE=python:3.11-slim
FROM $BASE
ARG EXTRAS=
ARG PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=/state
# Install the dependencies first, so that this layer is reused if only the code changes. Only files with a hash in the lock are
# accepted.
COPY requirements-image.lock /src/
RUN pip install --no-cache-dir $PIP_FLAGS --no-deps --require-hashes -r /src/requirements-image.lock
COPY . /src
RUN if [ -n "$EXTRAS" ]; then pip install --no-cache-dir $PIP_FLAGS "/src[$EXTRAS]" && pip uninstall --yes fedtempo; fi
# /state is writable for any user (`--user`). HOME and USER are for users without an entry in the image's /etc/passwd.
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src && rm -rf /src \
 && useradd --home-dir /state fedtempo && mkdir --mode 1777 /state && mkdir /work && chown fedtempo /work
ENV HOME=/state USER=fedtempo
USER fedtempo
WORKDIR /work
ENTRYPOINT ["fedtempo"]
CMD ["--help"]
