// Command whereabouts-reconciler runs whereabouts' own reconciler once, as its ReconcileIPs does, but with the connection
// of a kubeconfig instead of a service account's, and by choice with another limit of requests than the client's own.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	whereabouts "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
	storage "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig `file`")
	qps := flag.Int("qps", 0, "requests a second, and at once; 0: the client's own limits")
	timeout := flag.Duration("timeout", time.Hour, "when to give up")
	flag.Parse()
	time.AfterFunc(*timeout, func() { fail(fmt.Errorf("not done after %s", *timeout)) })
	logging.SetLogLevel("panic")
	if err := reconcile(*kubeconfig, *qps); err != nil {
		fail(err)
	}
}

func reconcile(kubeconfig string, qps int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = float32(qps), qps
	own, err := whereabouts.NewForConfig(config)
	if err != nil {
		return err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	looper, err := reconciler.NewReconcileLooperWithClient(storage.NewKubernetesClient(own, core))
	if err != nil {
		return err
	}
	if _, err := looper.ReconcileIPPools(); err != nil {
		return err
	}
	return looper.ReconcileOverlappingIPAddresses()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
