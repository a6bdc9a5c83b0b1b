// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

// The names that the manifests give to the project's own processes.
const (
	systemNamespace = "inference-cache-system"
	apiServerName   = "inference-cache-apiserver"
	controllerName  = "inference-cache-controller"
	apiServiceName  = "v1alpha1.inferencecache.io"
)

// The names of their programs, and so of their logs.
const (
	apiServerProgram  = "inferencecache-apiserver"
	controllerProgram = "inferencecache-controller"
)

// fingerprint changes when the project's own processes must be replaced: with their programs, arguments and manifests.
func fingerprint(ctx context.Context, o Options, programs Programs) (string, error) {
	parts := []any{o.APIServerArgs, o.ControllerArgs, o.Prepare}
	for _, program := range []string{o.APIServerProgram, o.ControllerProgram} {
		if program == "" {
			parts = append(parts, nil)
			continue
		}
		info, err := os.Stat(program)
		if err != nil {
			return "", fmt.Errorf("reading program: %w", err)
		}
		parts = append(parts, program, info.Size(), info.ModTime())
	}
	if o.usesManifests() {
		manifests, err := render(ctx, programs.Path("kubectl"), o.Overlay)
		if err != nil {
			return "", err
		}
		parts = append(parts, manifests)
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("encoding options: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// prepareOurs does all that the project's processes need except starting them. Ports, certificates and identities stay
// the same for the life of the cluster; programs, arguments and manifests may change.
func (s *supervisor) prepareOurs(ctx context.Context) error {
	if !s.options.usesManifests() {
		return nil
	}
	if s.state.APIServer == nil {
		if err := s.createOurs(); err != nil {
			return err
		}
	}
	server, controller := s.state.APIServer, s.state.Controller
	server.Program, server.ExtraArgs = s.options.APIServerProgram, s.options.APIServerArgs
	controller.Program, controller.ExtraArgs = s.options.ControllerProgram, s.options.ControllerArgs

	caBundle, err := os.ReadFile(server.CAFile)
	if err != nil {
		return fmt.Errorf("reading the serving authority: %w", err)
	}
	manifests, err := render(ctx, s.programs.Path("kubectl"), s.options.Overlay)
	if err != nil {
		return err
	}
	ref := serviceRef{name: apiServerName, caBundle: caBundle, port: server.Port, webhookPort: server.WebhookPort}
	if manifests, err = ref.pointAt(manifests); err != nil {
		return err
	}
	if err := os.WriteFile(s.dir.path("manifests.yaml"), manifests, 0o644); err != nil {
		return fmt.Errorf("writing the manifests: %w", err)
	}
	return apply(ctx, s.programs.Path("kubectl"), s.state.Kubeconfig, manifests)
}

// createOurs fixes the ports, the certificate and the identities. The certificate has an authority of its own, as in a
// real cluster: kube-apiserver trusts it only through the caBundle.
func (s *supervisor) createOurs() error {
	ca, err := newAuthority(s.dir.pki(), "serving-ca")
	if err != nil {
		return err
	}
	names := loopbackNames()
	service := apiServerName + "." + systemNamespace + ".svc"
	names.DNSNames = append(names.DNSNames, service, service+".cluster.local")
	serving, err := ca.issue("apiserver", certutil.Config{
		CommonName: service, AltNames: names, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	var chosen [4]int
	for i := range chosen {
		if chosen[i], err = s.ports.free(); err != nil {
			return err
		}
	}

	server := &OwnProcess{
		Port: chosen[0], WebhookPort: chosen[1], DataDir: s.dir.path("apiserver-data"), Log: s.dir.log(apiServerProgram),
		CAFile: ca.file, CertFile: serving.certFile, KeyFile: serving.keyFile,
	}
	if server.Kubeconfig, err = s.serviceAccount(apiServerName); err != nil {
		return err
	}
	server.Args = []string{
		"--kubeconfig=" + server.Kubeconfig,
		"--authentication-kubeconfig=" + server.Kubeconfig,
		"--authorization-kubeconfig=" + server.Kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(server.Port),
		"--webhook-port=" + strconv.Itoa(server.WebhookPort),
		"--tls-cert-file=" + server.CertFile, "--tls-private-key-file=" + server.KeyFile,
		"--data-dir=" + server.DataDir,
	}

	controller := &OwnProcess{Port: chosen[2], MetricsPort: chosen[3], Log: s.dir.log(controllerProgram)}
	if controller.Kubeconfig, err = s.serviceAccount(controllerName); err != nil {
		return err
	}
	controller.Args = []string{
		"--kubeconfig=" + controller.Kubeconfig,
		"--health-probe-bind-address=127.0.0.1:" + strconv.Itoa(controller.Port),
		"--metrics-bind-address=127.0.0.1:" + strconv.Itoa(controller.MetricsPort),
	}
	s.state.APIServer, s.state.Controller = server, controller
	return nil
}

// serviceAccount makes a kubeconfig whose certificate names the user that a service account is. A process with it can do
// exactly what the manifests allow that account, so running it proves them.
func (s *supervisor) serviceAccount(name string) (string, error) {
	return s.identity(name, "system:serviceaccount:"+systemNamespace+":"+name,
		"system:serviceaccounts", "system:serviceaccounts:"+systemNamespace)
}

// startOurs starts the processes that are asked for and waits until Kubernetes sees them.
func (s *supervisor) startOurs(ctx context.Context) error {
	server, err := s.startOwn(apiServerProgram)
	if err != nil {
		return err
	}
	if server != nil {
		if err := server.waitReady(ctx, s.apiServerReady); err != nil {
			return err
		}
	}
	controller, err := s.startOwn(controllerProgram)
	if err != nil || controller == nil {
		return err
	}
	return controller.waitReady(ctx, healthy(loopbackURL("http", s.state.Controller.Port)+"/readyz", nil, nil))
}

// startOwn returns no process when the program is not wanted.
func (s *supervisor) startOwn(name string) (*process, error) {
	own := s.state.APIServer
	if name == controllerProgram {
		own = s.state.Controller
	}
	if own == nil || own.Program == "" {
		return nil, nil
	}
	return s.start(name, own.Program, slices.Concat(own.Args, own.ExtraArgs))
}

// apiServerReady asks the API server itself, without an identity as a kubelet does, and then the aggregator.
func (s *supervisor) apiServerReady(ctx context.Context) error {
	if err := s.state.APIServer.ready(ctx); err != nil {
		return err
	}
	client, err := aggregatorclient.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	service, err := client.ApiregistrationV1().APIServices().Get(ctx, apiServiceName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading APIService: %w", err)
	}
	for _, condition := range service.Status.Conditions {
		if condition.Type == apiregistrationv1.Available && condition.Status == apiregistrationv1.ConditionTrue {
			return nil
		}
		if condition.Type == apiregistrationv1.Available {
			return fmt.Errorf("APIService %s is not available: %s", apiServiceName, condition.Message)
		}
	}
	return fmt.Errorf("APIService %s has not been checked yet", apiServiceName)
}

func (o *OwnProcess) ready(ctx context.Context) error {
	caBundle, err := os.ReadFile(o.CAFile)
	if err != nil {
		return fmt.Errorf("reading the serving authority: %w", err)
	}
	return healthy(loopbackURL("https", o.Port)+"/readyz", caBundle, nil)(ctx)
}
