// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// renderService leaves out what a cluster decides: addresses and their families.
func renderService(tier tier, request Request) *corev1.Service {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(request),
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			Selector:              SelectorLabels(request.Name),
			Ports:                 tier.servicePorts(),
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
		},
	}
	if tier.headless {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return service
}

// Endpoint is the address at which engines reach the tier behind a live Service, without a
// scheme. It is empty if there is no Service, or if the backend does not control it.
func Endpoint(live *corev1.Service, backend types.UID) string {
	if live == nil || len(live.Spec.Ports) == 0 {
		return ""
	}
	controller := metav1.GetControllerOfNoCopy(live)
	if controller == nil || controller.UID != backend {
		return ""
	}
	return fmt.Sprintf("%s.%s.svc.cluster.local:%d", live.Name, live.Namespace, live.Spec.Ports[0].Port)
}
