// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	otherName = "mesh.example.com"
	// otherContainer is what the other webhook adds.
	otherContainer = "mesh-proxy"
)

// TestOtherWebhooks asserts that engines are wired beside other webhooks that add containers, as service meshes do,
// whichever is called first, wherever they put their container, and also when either is called again because the other
// has changed the pod: once, with nothing missing and nothing twice.
func TestOtherWebhooks(t *testing.T) {
	serving(t, subscriberArg)
	other := newOtherWebhook(t)
	never, ifNeeded := admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy
	for _, ours := range []admissionregistrationv1.ReinvocationPolicyType{never, ifNeeded} {
		t.Run("ours="+string(ours), func(t *testing.T) {
			changeConfiguration(t, func(webhook *admissionregistrationv1.MutatingWebhook) { webhook.ReinvocationPolicy = &ours })
			for _, theirs := range []admissionregistrationv1.ReinvocationPolicyType{never, ifNeeded} {
				for _, name := range []string{"before", "z-after"} { // they are called in the order of their names
					for _, place := range []string{"first", "last"} {
						t.Run(fmt.Sprintf("theirs=%s/%s/%s", theirs, name, place), func(t *testing.T) {
							other.register(t, name, place, theirs)
							for _, runtime := range []v1alpha1.Runtime{v1alpha1.RuntimeVLLM, v1alpha1.RuntimeSGLang} {
								other.expect(t, runtime, place, ours == ifNeeded)
							}
						})
					}
				}
			}
		})
	}
}

// TestOtherWebhooksAndNames asserts what the name of the engine's container is good for. Under another name it is taken for
// the engine as long as it is alone: not if another webhook has added a container before, in which case there is a warning.
func TestOtherWebhooksAndNames(t *testing.T) {
	serving(t)
	other := newOtherWebhook(t)
	pod := newPod(other.namespace, "any-name")
	pod.Labels = map[string]string{"runtime": string(v1alpha1.RuntimeVLLM)}
	pod.Spec.Containers[0].Name = "server"
	for name, want := range map[string]string{"before": "unwired", "z-after": "wired"} {
		t.Run(name, func(t *testing.T) {
			other.register(t, name, "last", admissionregistrationv1.NeverReinvocationPolicy)
			got := createDecided(t, pod, dryRun)
			if got.outcome() != want || (want == "wired") != (len(got.warnings) == 0) {
				t.Errorf("outcome %q, reason %q, warnings %q; want %s", got.outcome(), got.reason(), got.warnings, want)
			}
		})
	}
}

// otherWebhook is a webhook of somebody else. Its path says where it puts its container.
type otherWebhook struct {
	server    *httptest.Server
	namespace string
	// backends by runtime; each selects pods that carry the runtime as a label.
	backends map[v1alpha1.Runtime]*v1alpha1.CacheBackend
}

func newOtherWebhook(t *testing.T) *otherWebhook {
	t.Helper()
	o := &otherWebhook{namespace: newNamespace(t, nil), backends: map[v1alpha1.Runtime]*v1alpha1.CacheBackend{}}
	for name, runtime := range map[string]v1alpha1.Runtime{"a": v1alpha1.RuntimeVLLM, "b": v1alpha1.RuntimeSGLang} {
		backend := newBackend(o.namespace, name)
		backend.Annotations = map[string]string{v1alpha1.AnnotationKernelCheck: "strict"}
		backend.Spec.Runtime = runtime
		backend.Spec.Observation = &v1alpha1.ObservationSpec{ModelID: "lab/atlas-9b"}
		backend.Spec.EngineSelector.MatchLabels = map[string]string{"runtime": string(runtime)}
		o.backends[runtime] = createBackend(t, backend)
	}
	o.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		respond(w, req, func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return addContainer(request, req.URL.Path)
		})
	}))
	t.Cleanup(o.server.Close)
	return o
}

// addContainer adds the container, unless the pod has it.
func addContainer(request *admissionv1.AdmissionRequest, path string) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	var pod corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
		return &admissionv1.AdmissionResponse{}
	}
	if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == otherContainer }) {
		return response
	}
	place := map[string]string{"/first": "0", "/last": "-"}[path]
	response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	response.Patch = fmt.Appendf(nil, `[{"op":"add","path":"/spec/containers/%s","value":{"name":%q,"image":"registry.test/mesh:1",
		"securityContext":{"allowPrivilegeEscalation":false}}}]`, place, otherContainer)
	return response
}

// register adds the webhook to the cluster for one test, and waits until it counts, and no longer counts.
func (o *otherWebhook) register(t *testing.T, name, place string, policy admissionregistrationv1.ReinvocationPolicyType) {
	t.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    otherName,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(o.server.URL + "/" + place),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: o.server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			NamespaceSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: o.namespace}},
			FailurePolicy:      new(admissionregistrationv1.Fail),
			SideEffects:        new(admissionregistrationv1.SideEffectClassNone),
			ReinvocationPolicy: &policy,
		}},
	}
	client := env.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := client.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "this webhook alone adds a container", func(ctx context.Context) error {
		probe, err := tryCreate(ctx, newPod(o.namespace, "probe"), dryRun)
		if err != nil {
			return err
		}
		calls, at := probe.calls(otherName), map[string]int{"first": 0, "last": 1}[place]
		if len(calls) != 1 || calls[name] == 0 || probe.pod.Spec.Containers[at].Name != otherContainer {
			err = fmt.Errorf("calls %v, containers %q", calls, containerNames(&probe.pod.Spec))
		}
		return err
	})
}

// expect creates an engine and demands that both webhooks have had their way.
func (o *otherWebhook) expect(t *testing.T, runtime v1alpha1.Runtime, place string, reinvoked bool) {
	t.Helper()
	pod := newPod(o.namespace, "beside-others")
	pod.Labels = map[string]string{"runtime": string(runtime)}
	initContainer := "lmcache-kernel-check"
	if runtime == v1alpha1.RuntimeSGLang {
		pod.Spec.Containers[0].Name, initContainer = "sglang", "lmcache-mp-worker"
	}
	var got creation
	eventually(t, fmt.Sprintf("our webhook is called again: %v", reinvoked), func(ctx context.Context) (err error) {
		if got, err = tryCreate(ctx, pod, dryRun); err == nil && (got.calls(webhookName)[configurationName] > 1) != reinvoked {
			err = fmt.Errorf("audit %v", got.audit)
		}
		return err
	})
	if changes := got.changes(webhookName); changes != 1 {
		t.Errorf("our webhook changes the pod %d times: %v", changes, got.audit)
	}
	names := containerNames(&got.pod.Spec)
	want := []string{pod.Spec.Containers[0].Name, initContainer, "kvevent-subscriber", otherContainer}
	if first := names[0] == otherContainer; first != (place == "first") {
		t.Errorf("the other webhook's container is not %s: %q", place, names)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(names))); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if runtime == v1alpha1.RuntimeVLLM {
		expectWire(t, got.pod, o.backends[runtime])
	}
}
