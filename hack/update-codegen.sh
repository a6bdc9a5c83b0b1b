#!/usr/bin/env bash
# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

# Regenerates all generated code: helpers and declarative validation beside the types, and
# openapi, clientset, listers, informers and apply configurations under pkg/generated.

set -o errexit -o nounset -o pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${root}"

module="inferencecache.io/inferencecache"
boilerplate="${root}/hack/boilerplate.go.txt"

# The generators go to a folder of this checkout, so that another project's version of
# them is never picked up.
export GOBIN="${root}/_output/bin/codegen"
mkdir -p "${GOBIN}"

codegen="$(go list -m -f '{{.Dir}}' k8s.io/code-generator)"
# shellcheck source=/dev/null
source "${codegen}/kube_codegen.sh"

readonly_pkgs=("${KUBE_CODEGEN_READONLY_PKGS[@]}")

# validation-gen looks for custom validation functions of a read-only package in that
# package itself, and those of meta/v1 live elsewhere. Our fields of its types are opaque,
# so it need not be read-only here.
KUBE_CODEGEN_READONLY_PKGS=()
for pkg in "${readonly_pkgs[@]}"; do
  [[ "${pkg}" == k8s.io/apimachinery/pkg/apis/meta/v1 ]] || KUBE_CODEGEN_READONLY_PKGS+=("${pkg}")
done
kube::codegen::gen_helpers --boilerplate "${boilerplate}" "${root}/pkg/apis"
kube::codegen::gen_register --boilerplate "${boilerplate}" "${root}/pkg/apis"

# Without core/v1 in the read-only list its model names would be written into the module
# cache.
KUBE_CODEGEN_READONLY_PKGS=("${readonly_pkgs[@]}" k8s.io/api/core/v1)
kube::codegen::gen_openapi \
  --extra-pkgs k8s.io/api/core/v1 \
  --extra-pkgs k8s.io/apimachinery/pkg/util/intstr \
  --output-dir "${root}/pkg/generated/openapi" \
  --output-pkg "${module}/pkg/generated/openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename "${root}/hack/api-violations.list" --update-report \
  --boilerplate "${boilerplate}" \
  "${root}/pkg/apis"

schema="$(mktemp)"
trap 'rm -f "${schema}"' EXIT
go run ./hack/models-schema >"${schema}"
kube::codegen::gen_client \
  --with-watch --with-applyconfig \
  --applyconfig-openapi-schema "${schema}" \
  --plural-exceptions CacheIndex:CacheIndices \
  --output-dir "${root}/pkg/generated" \
  --output-pkg "${module}/pkg/generated" \
  --boilerplate "${boilerplate}" \
  "${root}/pkg/apis"
