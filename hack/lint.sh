#!/usr/bin/env bash
# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs gofmt, vet, staticcheck and the modernizers of go fix over both modules' own code.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Everything under pkg/generated is judged by its generators.
mapfile -t packages < <(go list ./... | grep -v /pkg/generated)

echo "gofmt"
unformatted="$(find . -name '*.go' -not -path './_output/*' -not -path './pkg/generated/*' -print0 | xargs -0 gofmt -l)"
if [[ -n "${unformatted}" ]]; then
  echo "not formatted, run gofmt -w:" >&2
  echo "${unformatted}" >&2
  exit 1
fi

echo "licence headers"
unlicensed="$(find . \( -name '*.go' -o -name '*.sh' \) -not -path './_output/*' -print0 | xargs -0 grep -L 'SPDX-License-Identifier: Apache-2.0' || true)"
if [[ -n "${unlicensed}" ]]; then
  echo "without a licence header:" >&2
  echo "${unlicensed}" >&2
  exit 1
fi

mkdir -p _output/bin
go build -modfile=hack/tools/go.mod -o _output/bin/staticcheck honnef.co/go/tools/cmd/staticcheck

# lint_module DIR PACKAGE...
lint_module() {
  local dir="$1"
  shift
  (
    cd "${dir}"
    echo "go vet in ${dir}"
    go vet "$@"
    echo "staticcheck in ${dir}"
    "${OLDPWD}/_output/bin/staticcheck" "$@"
    echo "go fix in ${dir}"
    # Kubernetes API types say omitempty on structs, so omitzero is not for them. The
    # rewriting of embedded corev1 structs is left to their own module.
    if ! diff="$(go fix -diff -omitzero=false "$@" 2>&1)" || grep -q '^[-+]' <<<"${diff}"; then
      echo "outdated, run go fix -omitzero=false:" >&2
      echo "${diff}" >&2
      exit 1
    fi
  )
}
lint_module . "${packages[@]}"
lint_module hack/cluster ./...
