#!/usr/bin/env bash
# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

# Applies the samples to the local cluster and shows what came of them. Every command is
# printed before it runs, so that it can be tried by hand.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

KUBECONFIG="$(pwd)/_output/local/admin.kubeconfig"
export KUBECONFIG
PATH="$(_output/bin/cluster build):${PATH}"
samples=inference-cache-samples

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

run kubectl apply -f artifacts/samples/
run kubectl get inferencecache -n "${samples}"
# An external tier is judged in the write itself: there is nothing to wait for.
run kubectl wait --for=condition=Ready cachebackend/vllm-lmcacheserver-external -n "${samples}" --timeout=5s
# A managed one has its address once its Service is there.
run kubectl wait --for=jsonpath='{.status.endpoint}' cachebackend/chat-lmcacheserver -n "${samples}" --timeout=60s
# Engine pods are wired when they are created; the simulated nodes run them.
run kubectl apply -f artifacts/samples/engines/
run kubectl wait --for=condition=Available deployment --all -n "${samples}" --timeout=60s
run kubectl get pods -n "${samples}" -o \
  'custom-columns=POD:.metadata.name,BACKEND:.metadata.annotations.inferencecache\.io/injected-by,CONTAINERS:.spec.containers[*].name,INIT:.spec.initContainers[*].name'
# What became of a pod is told on the pod.
run kubectl get events -n "${samples}" --field-selector reason=InjectedByCacheBackend -o \
  'custom-columns=POD:.involvedObject.name,EVENT:.reason,MESSAGE:.message'
# Engines hold on to a cache server that is gone, so they are restarted when it is replaced.
run kubectl wait cachebackend/chat-lmcacheserver -n "${samples}" --for=jsonpath='{.status.observedServerInstance}' --timeout=60s
trigger='{.spec.template.metadata.annotations.inferencecache\.io/cache-server-restart-trigger}'
before="$(kubectl get deployment/chat-lmcacheserver-engine -n "${samples}" -o "jsonpath=${trigger}")"
run kubectl delete pod -n "${samples}" -l app.kubernetes.io/instance=chat-lmcacheserver
for _ in {1..120}; do
  [[ "$(kubectl get deployment/chat-lmcacheserver-engine -n "${samples}" -o "jsonpath=${trigger}")" != "${before}" ]] && break
  sleep 0.5
done
run kubectl get deployment/chat-lmcacheserver-engine -n "${samples}" -o "jsonpath=${trigger}"
run kubectl rollout status deployment/chat-lmcacheserver-engine -n "${samples}" --timeout=60s
run kubectl describe cachebackend chat-lmcacheserver -n "${samples}"

cat <<MESSAGE

The cluster stays up. To look around:

  export KUBECONFIG=${KUBECONFIG}
  alias kubectl=$(command -v kubectl)

and 'make down' stops it.
MESSAGE
