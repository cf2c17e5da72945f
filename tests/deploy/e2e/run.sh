#!/usr/bin/env bash
# Installs KEDA, Prometheus and the scaler into the cluster that kubectl points at, and watches a fleet grow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

IMAGE=vllm-keda-scaler:e2e
# Two increases, each after a minute of windows and with 15 s for the HPA; ten minutes are for a slow machine.
DEADLINE_S=600

docker build -f deploy/docker/Dockerfile -t "$IMAGE" .
kind load docker-image "$IMAGE"

helm repo add kedacore https://kedacore.github.io/charts
helm repo add prometheus-community https://prometheus-community.github.io/helm-charts
helm upgrade --install keda kedacore/keda --namespace keda --create-namespace --version 2.20.2 --wait
helm upgrade --install prometheus prometheus-community/prometheus --namespace monitoring --create-namespace --wait \
  --set alertmanager.enabled=false --set prometheus-pushgateway.enabled=false \
  --set prometheus-node-exporter.enabled=false --set server.global.scrape_interval=15s
helm upgrade --install vllm-scaler deploy/helm/vllm-keda-scaler --namespace keda --wait \
  --set image.tag=e2e --set config.prometheus_url=http://prometheus-server.monitoring

kubectl apply -f tests/deploy/e2e/fleet.yaml
SECONDS=0

replicas() { kubectl -n serving get deployment fleet -o jsonpath='{.spec.replicas}'; }
until [ "$(replicas)" = 4 ]; do
  if [ "$SECONDS" -gt "$DEADLINE_S" ]; then
    echo "the fleet has $(replicas) replicas after $SECONDS s, and 4 were expected" >&2
    exit 1
  fi
  sleep 5
done
kubectl -n keda logs --tail=-1 -l app.kubernetes.io/name=vllm-scaler | grep '"action": "scale_up"'
echo "the fleet has 4 replicas after $SECONDS s"
