// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	systemNamespace = "inference-cache-system"
	serverName      = "inference-cache-apiserver"
	controllerName  = "inference-cache-controller"
)

// base is every object of artifacts/base, decoded strictly.
func base(t *testing.T) []runtime.Object {
	t.Helper()
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := apiregistrationv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	files := slices.DeleteFunc(glob(t, "base/*.yaml"), func(file string) bool {
		return filepath.Base(file) == "kustomization.yaml"
	})
	files = append(files, filepath.Join(root, "overlays/external-etcd/poddisruptionbudget.yaml"))
	var objects []runtime.Object
	for _, d := range readDocuments(t, files...) {
		objects = append(objects, d.decode(t, s))
	}
	return objects
}

// only returns the objects of a type.
func only[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, obj := range objects {
		if o, ok := obj.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// one returns the only object of a type.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	found := only[T](objects)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func TestPodIsRestricted(t *testing.T) {
	objects := base(t)
	ns := one[*corev1.Namespace](t, objects)
	if got := ns.Labels["pod-security.kubernetes.io/enforce"]; ns.Name != systemNamespace || got != "restricted" {
		t.Errorf("namespace %s enforces %q", ns.Name, got)
	}

	pod := one[*appsv1.StatefulSet](t, objects).Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod uses a namespace of its host")
	}
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			t.Errorf("volume %s is on the host", volume.Name)
		}
	}
	want := &corev1.PodSecurityContext{
		RunAsNonRoot:        new(true),
		RunAsUser:           new(int64(65532)),
		RunAsGroup:          new(int64(65532)),
		FSGroup:             new(int64(65532)), // else the volume is root's and cannot be written
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(want, pod.SecurityContext); diff != "" {
		t.Errorf("security context of the pod (-want +got):\n%s", diff)
	}
	if len(pod.InitContainers)+len(pod.EphemeralContainers) != 0 || len(pod.Containers) != 1 {
		t.Fatal("want one container and nothing beside it")
	}
	wantContainer := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(wantContainer, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("security context of the container (-want +got):\n%s", diff)
	}
}

func TestStatefulSetKeepsItsData(t *testing.T) {
	sts := one[*appsv1.StatefulSet](t, base(t))
	if *sts.Spec.Replicas != 1 {
		t.Errorf("%d replicas of an embedded etcd", *sts.Spec.Replicas)
	}
	if len(sts.Spec.VolumeClaimTemplates) != 1 {
		t.Fatal("want one claim")
	}
	claim := sts.Spec.VolumeClaimTemplates[0]
	if got := claim.Spec.AccessModes; !slices.Equal(got, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}) {
		t.Errorf("access modes %v: two servers could have the volume", got)
	}
	want := &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	}
	if diff := cmp.Diff(want, sts.Spec.PersistentVolumeClaimRetentionPolicy); diff != "" {
		t.Errorf("retention of the claim (-want +got):\n%s", diff)
	}

	container := sts.Spec.Template.Spec.Containers[0]
	mounts := map[string]corev1.VolumeMount{}
	for _, mount := range container.VolumeMounts {
		mounts[mount.MountPath] = mount
	}
	if got := mounts[flagValue(container.Args, "data-dir")].Name; got != claim.Name {
		t.Errorf("--data-dir is on volume %q, want %q", got, claim.Name)
	}
	for _, flag := range []string{"tls-cert-file", "tls-private-key-file"} {
		dir := filepath.Dir(flagValue(container.Args, flag))
		if mount, ok := mounts[dir]; !ok || !mount.ReadOnly {
			t.Errorf("--%s: %s is not mounted read-only", flag, dir)
		}
	}
	// With a read-only root the embedded etcd has no other place for its socket.
	if mounts["/tmp"].Name == "" || mounts["/tmp"].ReadOnly {
		t.Error("/tmp is not writable")
	}
}

// TestMemoryFitsTheQuota: what fits into the store is held decoded as well. A server that needs more than its limit would be
// killed again at every start, with nothing that could be deleted in between.
func TestMemoryFitsTheQuota(t *testing.T) {
	container := one[*appsv1.StatefulSet](t, base(t)).Spec.Template.Spec.Containers[0]
	quota, err := strconv.ParseInt(flagValue(container.Args, "etcd-quota-bytes"), 10, 64)
	if err != nil {
		t.Fatalf("--etcd-quota-bytes: %v", err)
	}
	limit := container.Resources.Limits.Memory().Value()
	if limit < 4*quota {
		t.Errorf("a limit of %d bytes for a quota of %d, want 4 times the quota", limit, quota)
	}

	var soft int64
	for _, env := range container.Env {
		if env.Name != "GOMEMLIMIT" {
			continue
		}
		mebibytes, found := strings.CutSuffix(env.Value, "MiB") // Go knows no Mi, and ends at what it does not know.
		if soft, err = strconv.ParseInt(mebibytes, 10, 64); err != nil || !found {
			t.Fatalf("GOMEMLIMIT is %q", env.Value)
		}
		soft <<= 20
	}
	if soft < limit/100*85 || soft > limit/100*92 {
		t.Errorf("GOMEMLIMIT of %d bytes, want about 90%% of %d", soft, limit)
	}
}

// flagValue is the value of --name=value among args.
func flagValue(args []string, name string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

func TestProbes(t *testing.T) {
	container := one[*appsv1.StatefulSet](t, base(t)).Spec.Template.Spec.Containers[0]
	for name, probe := range map[string]*corev1.Probe{
		"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("%s: not a get over HTTPS", name)
			continue
		}
		want := "/livez" // Which leaves etcd out by itself: an unknown name to exclude would only be logged.
		if name == "readiness" {
			want = "/readyz"
		}
		if got := probe.HTTPGet.Path; got != want {
			t.Errorf("%s: path %s, want %s", name, got, want)
		}
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == probe.HTTPGet.Port.String()
		}) {
			t.Errorf("%s: no port %s", name, probe.HTTPGet.Port.String())
		}
	}
}

// TestTrafficReachesThePod follows the names from the APIService to the container.
func TestTrafficReachesThePod(t *testing.T) {
	objects := base(t)
	apiService := one[*apiregistrationv1.APIService](t, objects)
	gv := v1alpha1.APIVersion
	want := apiregistrationv1.APIServiceSpec{
		Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 1000, VersionPriority: 15,
		Service: &apiregistrationv1.ServiceReference{
			Namespace: systemNamespace, Name: serverName, Port: new(int32(443)),
		},
	}
	if diff := cmp.Diff(want, apiService.Spec); diff != "" || apiService.Name != gv.Version+"."+gv.Group {
		t.Errorf("APIService %s (-want +got):\n%s", apiService.Name, diff)
	}

	service := one[*corev1.Service](t, objects)
	if service.Namespace != systemNamespace || service.Name != serverName {
		t.Errorf("service %s/%s", service.Namespace, service.Name)
	}
	pod := one[*appsv1.StatefulSet](t, objects).Spec.Template
	container := pod.Spec.Containers[0]
	// kube-apiserver asks for the port of the Service; the argument opens the port of the pod.
	for i, p := range []struct {
		name, flag string
		port       int32
	}{{"https", "secure-port", 443}, {"webhook", "webhook-port", 9443}} {
		if len(service.Spec.Ports) != 2 || len(container.Ports) != 2 {
			t.Fatalf("service ports %v, container ports %v, want 2 of each", service.Spec.Ports, container.Ports)
		}
		want := corev1.ServicePort{
			Name: p.name, Port: p.port, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromInt32(container.Ports[i].ContainerPort),
		}
		if diff := cmp.Diff(want, service.Spec.Ports[i]); diff != "" {
			t.Errorf("service port %s (-want +got):\n%s", p.name, diff)
		}
		if got := container.Ports[i]; got.Name != p.name || flagValue(container.Args, p.flag) != want.TargetPort.String() {
			t.Errorf("container port %v, want %s as in --%s", got, p.name, p.flag)
		}
	}
	policy := one[*networkingv1.NetworkPolicy](t, objects)
	if diff := cmp.Diff(wantIngress(), policy.Spec.Ingress); diff != "" {
		t.Errorf("ingress (-want +got):\n%s", diff)
	}
	for what, selector := range map[string]*metav1.LabelSelector{
		"Service":             {MatchLabels: service.Spec.Selector},
		"NetworkPolicy":       &policy.Spec.PodSelector,
		"StatefulSet":         one[*appsv1.StatefulSet](t, objects).Spec.Selector,
		"PodDisruptionBudget": one[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector,
	} {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s: %v does not select the pod: %v", what, selector, err)
		}
	}
}

// wantIngress lets everybody reach the API. The blocks for the webhook are meant for kube-apiserver; whether they hold for
// pods is up to the network plugin, and narrowing them is up to the operator, who knows the addresses.
func wantIngress() []networkingv1.NetworkPolicyIngressRule {
	ports := func(port int32) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}}
	}
	return []networkingv1.NetworkPolicyIngressRule{
		{Ports: ports(6443)},
		{Ports: ports(9443), From: []networkingv1.NetworkPolicyPeer{
			{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem},
			}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0"}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0"}},
		}},
	}
}

// TestObjectsNameTheirNamespace: no transformer adds it, because one object is in kube-system.
func TestObjectsNameTheirNamespace(t *testing.T) {
	for _, obj := range base(t) {
		meta, ok := obj.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no metadata", obj)
		}
		want := systemNamespace
		switch o := obj.(type) {
		case *corev1.Namespace, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *apiregistrationv1.APIService,
			*admissionregistrationv1.MutatingWebhookConfiguration:
			want = ""
		case *rbacv1.RoleBinding:
			if o.RoleRef.Name == "extension-apiserver-authentication-reader" {
				want = metav1.NamespaceSystem
			}
		}
		if meta.GetNamespace() != want {
			t.Errorf("%T %s: namespace %q, want %q", obj, meta.GetName(), meta.GetNamespace(), want)
		}
	}
}

// serverArgs are the argument lists of the server by the file that has them.
func serverArgs(t *testing.T) map[string][]string {
	t.Helper()
	args := map[string][]string{
		"base/statefulset.yaml": one[*appsv1.StatefulSet](t, base(t)).Spec.Template.Spec.Containers[0].Args,
	}
	const patchFile = "overlays/external-etcd/deployment.yaml"
	for _, d := range readDocuments(t, filepath.Join(root, patchFile)) {
		var operations []struct {
			Path  string `json:"path"`
			Value any    `json:"value"`
		}
		if err := yaml.Unmarshal(d.yaml, &operations); err != nil {
			t.Fatalf("%s: %v", patchFile, err)
		}
		for _, operation := range operations {
			if operation.Path != "/spec/template/spec/containers/0/args" {
				continue
			}
			values, ok := operation.Value.([]any)
			if !ok {
				t.Fatalf("%s: args are %T", patchFile, operation.Value)
			}
			for _, value := range values {
				args[patchFile] = append(args[patchFile], value.(string))
			}
		}
	}
	return args
}

func TestServerArgs(t *testing.T) {
	all := serverArgs(t)
	if len(all) != 2 {
		t.Fatalf("arguments in %d files, want 2", len(all))
	}
	for file, args := range all {
		for _, arg := range args {
			name, value, found := strings.Cut(arg, "=")
			if !strings.HasPrefix(name, "--") || !found || value == "" {
				t.Errorf("%s: %s is not --flag=value", file, arg)
			}
		}
		if embedded, external := flagValue(args, "data-dir") != "", flagValue(args, "etcd-servers") != ""; embedded == external {
			t.Errorf("%s: want either --data-dir or --etcd-servers", file)
		}
	}
}
