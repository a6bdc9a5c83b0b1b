#!/usr/bin/env bash
# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs all tests: first what needs no cluster, then what runs on a real control plane.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The race detector needs a C compiler.
race=(-race)
if ! command -v "$(go env CC)" >/dev/null; then
  echo "no C compiler: testing without the race detector" >&2
  race=()
fi

# Packages that link the API server or etcd take many minutes to build with the race
# detector, and are tested without it.
raced=() plain=()
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
  case "${package}" in
    */test/cacheindex | */test/controller | */test/disruption | */test/e2e | */test/wiring) continue ;;
  esac
  if go list -deps -test "${package}" | grep -qxE 'k8s.io/apiserver/pkg/server|go.etcd.io/etcd/server/v3/embed'; then
    plain+=("${package}")
  else
    raced+=("${package}")
  fi
done
go test "${race[@]}" "${raced[@]}"
go test "${plain[@]}"
(cd hack/cluster && go test ./...)

# The API server is a process of its own here, so these link neither. go test cannot see when
# it has changed, so no result is taken from the cache. Each package has a cluster of its own
# and spends most of its time waiting, so two of them run at a time.
go test -count=1 -timeout 20m ./test/controller &
controller=$!
status=0
go test -count=1 -timeout 15m "${race[@]}" ./test/e2e || status=$?
go test -count=1 -timeout 15m -p 1 ./test/wiring ./test/cacheindex ./test/disruption || status=$?
wait "${controller}" || status=$?
exit "${status}"
