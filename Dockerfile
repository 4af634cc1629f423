# SPDX-License-Identifier: Apache-2.0
#
#     docker build --tag zaqar-redis .
#     docker build --tag zaqar-redis --build-arg EXTRAS=keystone,openstack .
#
# The last two stages need the same Python at the same place: the environment made in the first one links
# to it. For builds that can be repeated name it by its digest: --build-arg PYTHON_IMAGE=...
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM node:22-slim AS assets
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM ${PYTHON_IMAGE} AS build
ARG EXTRAS=""
WORKDIR /src
RUN python3 -m venv /opt/zaqar-redis
COPY . .
# As tools/console-assets: what draws the charts of the console.
COPY --from=assets /src/node_modules/uplot/dist/uPlot.iife.min.js \
    /src/node_modules/uplot/dist/uPlot.min.css /src/node_modules/uplot/LICENSE \
    zaqar_redis/api/console/vendor/
# Compiled now, because the file system of a container may be read-only. There pip is of no use.
RUN /opt/zaqar-redis/bin/pip install --no-cache-dir --compile --constraint constraints.txt \
        ".${EXTRAS:+[$EXTRAS]}" \
    && /opt/zaqar-redis/bin/pip uninstall --yes pip setuptools

FROM ${PYTHON_IMAGE}
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="zaqar-redis" \
      org.opencontainers.image.description="Queues on Redis: an OpenStack Zaqar v2 service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN install --directory --mode=0700 --owner=10001 --group=10001 /var/lib/zaqar-redis
COPY --from=build /opt/zaqar-redis /opt/zaqar-redis

# The store of embedded:// is in XDG_DATA_HOME. gunicorn has a file for each worker in TMPDIR:
# /dev/shm can be written to in a container that is read-only, too.
ENV PATH=/opt/zaqar-redis/bin:$PATH \
    HOME=/var/lib/zaqar-redis \
    XDG_DATA_HOME=/var/lib \
    TMPDIR=/dev/shm \
    PYTHONUNBUFFERED=1
# A number: Kubernetes' runAsNonRoot cannot check a name.
USER 10001:10001
WORKDIR /var/lib/zaqar-redis
VOLUME /var/lib/zaqar-redis
EXPOSE 8888
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8888/healthcheck/live', timeout=4)"]
ENTRYPOINT ["zaqar-redis"]
CMD ["serve", "--bind", "0.0.0.0:8888"]
