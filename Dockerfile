# docker build -t fedtempo .
# docker run --rm --shm-size 1g -v "$PWD:/work" fedtempo run configs/fedhusky.toml
# EXTRAS: what else is installed, comma-separated: `--build-arg EXTRAS=ray,hf`. Flower is what deploy/compose.yaml needs.
FROM python:3.11-slim
ARG EXTRAS=flower
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=/state
COPY . /src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu "/src[$EXTRAS]" && rm -rf /src \
 && useradd --create-home fedtempo && mkdir /state /work && chown fedtempo /state /work
USER fedtempo
WORKDIR /work
ENTRYPOINT ["fedtempo"]
CMD ["--help"]
