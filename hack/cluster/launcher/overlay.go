// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// serviceRef is how the manifests refer to the API server: by its Service, which the overlay turns into the external
// name localhost, so that kube-apiserver dials the ports below on this machine.
type serviceRef struct {
	name              string
	caBundle          []byte
	port, webhookPort int
}

// render builds the manifests of an overlay. The overlay may lie in another checkout than its base does.
func render(ctx context.Context, kubectl, overlay string) ([]byte, error) {
	var manifests, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, kubectl, "kustomize", "--load-restrictor", "LoadRestrictionsNone", overlay)
	cmd.Stdout, cmd.Stderr = &manifests, &complaints
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rendering %s: %w: %s", overlay, err, strings.TrimSpace(complaints.String()))
	}
	return manifests.Bytes(), nil
}

// apply makes the cluster as the manifests say. Server-side, so that it can be repeated and takes nothing from others.
func apply(ctx context.Context, kubectl, kubeconfig string, manifests []byte) error {
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts",
		"--field-manager", "local-cluster", "-f", "-")
	cmd.Stdin = bytes.NewReader(manifests)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("applying the manifests: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// pointAt edits rendered manifests: everything in them that calls the Service is told the certificate authority and the
// port of this cluster's process.
func (ref serviceRef) pointAt(manifests []byte) ([]byte, error) {
	var edited bytes.Buffer
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return edited.Bytes(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifests: %w", err)
		}
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("decoding a manifest: %w", err)
		}
		if len(object) == 0 {
			continue
		}
		if err := ref.edit(object); err != nil {
			return nil, fmt.Errorf("editing %v %s: %w", object["kind"], (&unstructured.Unstructured{Object: object}).GetName(), err)
		}
		if document, err = yaml.Marshal(object); err != nil {
			return nil, fmt.Errorf("encoding a manifest: %w", err)
		}
		edited.WriteString("---\n")
		edited.Write(document)
	}
}

func (ref serviceRef) edit(object map[string]any) error {
	switch object["kind"] {
	case "APIService":
		spec, _, err := unstructured.NestedMap(object, "spec")
		if err != nil {
			return err
		}
		if !ref.set(spec, ref.port) {
			return nil
		}
		delete(spec, "insecureSkipTLSVerify")
		object["spec"] = spec
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		webhooks, _, err := unstructured.NestedSlice(object, "webhooks")
		if err != nil {
			return err
		}
		for _, webhook := range webhooks {
			webhook, _ := webhook.(map[string]any)
			if config, ok := webhook["clientConfig"].(map[string]any); ok {
				ref.set(config, ref.webhookPort)
			}
		}
		object["webhooks"] = webhooks
	}
	return nil
}

// set fills in a client configuration, provided that it names the Service.
func (ref serviceRef) set(config map[string]any, port int) bool {
	service, ok := config["service"].(map[string]any)
	if !ok || service["name"] != ref.name {
		return false
	}
	service["port"] = int64(port)
	config["caBundle"] = base64.StdEncoding.EncodeToString(ref.caBundle)
	return true
}
