#!/usr/bin/env bash
# Copyright The Inference Cache Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the long forms of the tests: SOAK is their time budget (a Go duration), FUZZTIME that
# of each fuzz target.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

export SOAK="${SOAK:-5m}"
go test -count=1 -timeout 60m ./test/disruption
go test -count=1 -timeout 60m -run '^(TestSteadyState|TestDeath|TestFaults|TestSingletonUnderFaults|TestBrokenWatches|TestStaleCache|TestBackOff)$' ./test/controller

grep -rl --include='*_test.go' '^func Fuzz' pkg | while read -r file; do
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "${file}"); do
    go test -run '^$' -fuzz "^${target}\$" -fuzztime "${FUZZTIME:-1m}" "./$(dirname "${file}")"
  done
done
