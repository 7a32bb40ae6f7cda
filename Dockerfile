# syntax=docker/dockerfile:1
# The coordinator as one static program in an image without shell or packages.

FROM golang:1.26 AS build
WORKDIR /src
# The modules first: they change less often than the source.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /taskbus ./cmd/taskbus

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /taskbus /taskbus
# An example fleet, so that the image starts; mount your own folder over it.
COPY config/agents.yaml config/agents.schema.json /etc/taskbus/
ENV TASKBUS_CONFIG=/etc/taskbus/agents.yaml \
    TASKBUS_HTTP_BIND=0.0.0.0 \
    COORDINATOR_PORT=8551
EXPOSE 8551
# 65532 is distroless's nonroot, as a number so that Kubernetes can check
# runAsNonRoot.
USER 65532:65532
# Alive, not ready: an empty fleet or a broker that is away is no reason to
# restart.
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s --retries=3 CMD ["/taskbus", "health", "--live"]
ENTRYPOINT ["/taskbus"]
CMD ["serve"]
