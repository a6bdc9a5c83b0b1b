#!/usr/bin/env bash
# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks that the tree is in order. Steps that write come first; whatever they change is an
# error.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# snapshot prints a hash of every file that a generator or go mod tidy may write.
snapshot() {
  find pkg/apis pkg/generated hack/api-violations.list -type f -print0 | sort -z | xargs -0 sha256sum
  find . -name _output -prune -o \( -name go.mod -o -name go.sum \) -print0 | sort -z | xargs -0 sha256sum
}

before="$(snapshot)"

hack/update-codegen.sh
for module in . hack/cluster hack/tools; do
  (cd "${module}" && go mod tidy)
done

after="$(snapshot)"
if [[ "${before}" != "${after}" ]]; then
  echo "not up to date; 'make generate' and 'go mod tidy' changed:" >&2
  diff <(echo "${before}") <(echo "${after}") >&2 || true
  exit 1
fi
# The generators must not have written into the module cache.
go mod verify

hack/lint.sh
