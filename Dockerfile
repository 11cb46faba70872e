# docker build -t fedtempo .
# docker run --rm --shm-size 1g -v "$PWD:/work" fedtempo run configs/fedhusky.toml
# Build arguments. BASE: an image with Python and pip, where Docker Hub cannot be reached. EXTRAS: what else is installed,
# comma-separated, as in `--build-arg EXTRAS=ray,hf`; deploy/compose.yaml needs Flower. PIP_FLAGS: where pip finds PyTorch.
ARG BASE=python:3.11-slim
FROM $BASE
ARG EXTRAS=flower
ARG PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=/state
COPY . /src
RUN pip install --no-cache-dir $PIP_FLAGS "/src[$EXTRAS]" && rm -rf /src \
 && useradd --create-home fedtempo && mkdir /state /work && chown fedtempo /state /work
USER fedtempo
WORKDIR /work
ENTRYPOINT ["fedtempo"]
CMD ["--help"]
