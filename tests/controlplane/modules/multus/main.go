// Command multus-names tells which interface names Multus gives to the attachments of a pod.
//
// It reads pods from standard input, one JSON object a line, runs Multus' own CmdAdd for each, and answers each by
// one line: {"names": ["eth0", "net1"]} in the order of the ADDs, {"error": "..."}, or {"panic": "..."}.
// Its argument is a folder for the files that Multus and libcni keep.
//
// Everything between the pod and the call of a CNI plugin is Multus and libcni as they are. Not real are the plugins
// (every ADD succeeds with an empty result), the API server, and network namespaces (see plugins/pkg/ns).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	nadtyped "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/typed/k8s.cni.cncf.io/v1"
	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/k8sclient"
	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/multus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	coretyped "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	podName         = "pod"
	multusNamespace = "kube-system"
	clusterNetwork  = "cluster" // the cluster's own network, in multusNamespace
	anyPlugin       = "any"
)

// question is one line of the input.
type question struct {
	Namespace       string            `json:"namespace"` // "default" if empty
	Annotations     map[string]string `json:"annotations"`
	NADs            *[]nad            `json:"nads"`            // without them there is one of every name that is valid
	DefaultNetworks int               `json:"defaultNetworks"` // how many Multus attaches to every pod of the cluster
}

type nad struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Config    string `json:"config"` // of a single plugin if empty
}

type answer struct {
	Names []string `json:"names,omitempty"`
	Error string   `json:"error,omitempty"`
	Panic string   `json:"panic,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: multus-names FOLDER < pods")
	}
	if err := answerAll(os.Stdin, os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// answerAll writes each answer before it reads the next question.
func answerAll(questions io.Reader, answers io.Writer, folder string) error {
	lines := json.NewDecoder(bufio.NewReader(questions))
	encoder := json.NewEncoder(answers)
	encoder.SetEscapeHTML(false)
	for {
		var asked question
		if err := lines.Decode(&asked); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if asked.Namespace == "" {
			asked.Namespace = metav1.NamespaceDefault
		}
		if err := encoder.Encode(ask(asked, folder)); err != nil {
			return err
		}
	}
}

func ask(asked question, folder string) (given answer) {
	defer func() {
		if reason := recover(); reason != nil {
			given = answer{Panic: fmt.Sprint(reason)}
		}
	}()
	plugins := &recorder{}
	configuration, defaults := multusConfiguration(asked.DefaultNetworks, folder)
	arguments := &skel.CmdArgs{
		ContainerID: "container",
		Netns:       "/var/run/netns/pod",
		IfName:      "eth0",
		Args:        fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s", asked.Namespace, podName),
		StdinData:   configuration,
	}
	cluster := &k8sclient.ClientInfo{
		Client:    kube{pod: asked.pod()},
		NetClient: nads{defined: asked.NADs, defaults: defaults},
	}
	if _, err := multus.CmdAdd(arguments, plugins, cluster); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Names: plugins.names}
}

// multusConfiguration returns Multus' own configuration, and the names of the networks that it attaches to all pods.
func multusConfiguration(defaultNetworks int, folder string) ([]byte, []string) {
	defaults := []string{}
	for number := range defaultNetworks {
		defaults = append(defaults, fmt.Sprintf("default-%d", number+1))
	}
	configuration, err := json.Marshal(map[string]any{
		"cniVersion":      "1.0.0",
		"name":            "multus",
		"type":            "multus",
		"clusterNetwork":  clusterNetwork,
		"defaultNetworks": defaults,
		"multusNamespace": multusNamespace,
		"cniDir":          filepath.Join(folder, "cni"),
		"confDir":         filepath.Join(folder, "net.d"),
		"binDir":          filepath.Join(folder, "bin"),
		"logToStderr":     false,
	})
	if err != nil {
		panic(err)
	}
	return configuration, append(defaults, clusterNetwork)
}

func (asked question) pod() *corev1.Pod {
	meta := metav1.ObjectMeta{Namespace: asked.Namespace, Name: podName, UID: "uid", Annotations: asked.Annotations}
	return &corev1.Pod{ObjectMeta: meta}
}

// --- The CNI plugins -------------------------------------------------------------------------------------------------

// recorder stands for every plugin, and notes the name of the interface that each attachment is to have.
type recorder struct {
	version.PluginDecoder
	names []string
}

func (*recorder) FindInPath(plugin string, _ []string) (string, error) { return plugin, nil }

func (plugins *recorder) ExecPlugin(_ context.Context, _ string, stdin []byte, environment []string) ([]byte, error) {
	var configuration struct {
		CNIVersion string          `json:"cniVersion"`
		PrevResult json.RawMessage `json:"prevResult"` // of the plugin before in the same chain
	}
	if err := json.Unmarshal(stdin, &configuration); err != nil {
		return nil, err
	}
	if slices.Contains(environment, "CNI_COMMAND=ADD") && configuration.PrevResult == nil {
		plugins.names = append(plugins.names, value(environment, "CNI_IFNAME"))
	}
	return json.Marshal(map[string]string{"cniVersion": configuration.CNIVersion})
}

// value returns what the variable is last set to, as in a process started with this environment.
func value(environment []string, variable string) string {
	for _, assignment := range slices.Backward(environment) {
		if text, found := strings.CutPrefix(assignment, variable+"="); found {
			return text
		}
	}
	return ""
}

// --- The API server --------------------------------------------------------------------------------------------------

// kube is a cluster with one pod. Multus calls nothing but what is written here: anything else would panic.
type kube struct {
	kubernetes.Interface
	coretyped.CoreV1Interface
	coretyped.PodInterface
	pod *corev1.Pod
}

func (cluster kube) CoreV1() coretyped.CoreV1Interface { return cluster }

func (cluster kube) Pods(string) coretyped.PodInterface { return cluster }

func (cluster kube) Get(context.Context, string, metav1.GetOptions) (*corev1.Pod, error) {
	return cluster.pod, nil
}

func (cluster kube) UpdateStatus(_ context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	return pod, nil
}

// nads are the NetworkAttachmentDefinitions that there are; those of the cluster and its default networks always are.
type nads struct {
	nadclient.Interface
	nadtyped.K8sCniCncfIoV1Interface
	nadtyped.NetworkAttachmentDefinitionInterface
	defined   *[]nad
	defaults  []string
	namespace string
}

func (cluster nads) K8sCniCncfIoV1() nadtyped.K8sCniCncfIoV1Interface { return cluster }

func (cluster nads) NetworkAttachmentDefinitions(
	namespace string,
) nadtyped.NetworkAttachmentDefinitionInterface {
	cluster.namespace = namespace
	return cluster
}

func (cluster nads) Get(
	_ context.Context, name string, _ metav1.GetOptions,
) (*nadv1.NetworkAttachmentDefinition, error) {
	configuration, found := cluster.find(name)
	if !found {
		resource := schema.GroupResource{Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"}
		return nil, apierrors.NewNotFound(resource, name)
	}
	if configuration == "" {
		configuration = fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "type": %q}`, name, anyPlugin)
	}
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: configuration},
	}, nil
}

func (cluster nads) find(name string) (string, bool) {
	if cluster.namespace == multusNamespace && slices.Contains(cluster.defaults, name) {
		return "", true
	}
	if cluster.defined == nil {
		invalid := append(validation.IsDNS1123Subdomain(name), validation.IsDNS1123Label(cluster.namespace)...)
		return "", len(invalid) == 0
	}
	for _, defined := range *cluster.defined {
		if defined.Namespace == cluster.namespace && defined.Name == name {
			return defined.Config, true
		}
	}
	return "", false
}
