// An integration of AITrainingJobs for Kueue, as its documentation describes one that runs outside
// of its manager. It knows of the job only what docs/reference/aitrainingjob.md promises, and is
// how tests find out whether that is enough for a Kueue that runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/podset"
)

var kind = schema.GroupVersionKind{
	Group: "elasticdeeplearning.ai", Version: "v1", Kind: "AITrainingJob",
}

func main() {
	flag.Parse() // --kubeconfig is controller-runtime's
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueue.AddToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Jobs are kept as they are on the server: fields that this program does not know stay.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	if err := jobframework.SetupWorkloadOwnerIndex(ctx, manager.GetFieldIndexer(), kind); err != nil {
		return err
	}
	factory := jobframework.NewGenericReconcilerFactory(newJob)
	reconciler, err := factory(
		ctx, manager.GetClient(), manager.GetFieldIndexer(), manager.GetEventRecorder("swell-kueue"),
	)
	if err != nil {
		return err
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}

type trainingJob struct {
	body *unstructured.Unstructured
}

var (
	_ jobframework.GenericJob              = (*trainingJob)(nil)
	_ jobframework.JobWithReclaimablePods  = (*trainingJob)(nil)
	_ jobframework.JobWithPriorityClass    = (*trainingJob)(nil)
	_ jobframework.JobWithPodLabelSelector = (*trainingJob)(nil)
)

func newJob() jobframework.GenericJob {
	body := &unstructured.Unstructured{}
	body.SetGroupVersionKind(kind)
	return &trainingJob{body}
}

func (job *trainingJob) Object() client.Object { return job.body }

func (job *trainingJob) GVK() schema.GroupVersionKind { return kind }

// A job with the label of a queue is suspended unless it says otherwise.
func (job *trainingJob) IsSuspended() bool {
	suspend, found, _ := unstructured.NestedBool(job.body.Object, "spec", "suspend")
	return suspend || !found
}

func (job *trainingJob) Suspend() { job.setSuspend(true) }

func (job *trainingJob) setSuspend(suspend bool) {
	utilruntime.Must(unstructured.SetNestedField(job.body.Object, suspend, "spec", "suspend"))
}

func (job *trainingJob) PriorityClass() string {
	name, _, _ := unstructured.NestedString(job.body.Object, "spec", "priority")
	return name
}

func (job *trainingJob) PodLabelSelector() string {
	return "TrainingJobName=" + job.body.GetName()
}

func (job *trainingJob) condition(kind string) *metav1.Condition {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	found, _, _ := unstructured.NestedMap(job.body.Object, "status")
	utilruntime.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status))
	return apimeta.FindStatusCondition(status.Conditions, kind)
}

func (job *trainingJob) Finished(context.Context) (message string, success, finished bool) {
	end := job.condition("Finished")
	if end == nil || end.Status != metav1.ConditionTrue {
		return "", false, false
	}
	return end.Message, end.Reason == "JobFinished", true
}

// A job that has given back all its pods holds no quota.
func (job *trainingJob) IsActive() bool {
	holds := job.condition("QuotaReserved")
	return holds != nil && holds.Status == metav1.ConditionTrue
}

func (job *trainingJob) PodsReady(context.Context, client.Client) bool {
	ready := job.condition("Ready")
	return ready != nil && ready.Status == metav1.ConditionTrue
}

func (job *trainingJob) ReclaimablePods(
	context.Context, client.Client,
) ([]kueue.ReclaimablePod, error) {
	var status struct {
		Reclaimable []kueue.ReclaimablePod `json:"reclaimablePods"`
	}
	found, _, _ := unstructured.NestedMap(job.body.Object, "status")
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status)
	return status.Reclaimable, err
}

// What a role says about its pods. The template is written back only where Kueue changes it.
type role struct {
	Replicas *int32                 `json:"replicas"`
	Min      *int32                 `json:"minReplicas"`
	Max      *int32                 `json:"maxReplicas"`
	Policy   string                 `json:"edlPolicy"`
	Template corev1.PodTemplateSpec `json:"template"`
}

func (found *role) count() int32 {
	switch {
	case found.Replicas != nil:
		return *found.Replicas
	case found.Min != nil:
		return *found.Min
	}
	return 1
}

func (job *trainingJob) roles() ([]string, map[string]*role, error) {
	bodies, _, err := unstructured.NestedMap(job.body.Object, "spec", "replicaSpecs")
	if err != nil {
		return nil, nil, err
	}
	roles := make(map[string]*role, len(bodies))
	for name, body := range bodies {
		roles[name] = &role{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(
			body.(map[string]any), roles[name],
		)
		if err != nil {
			return nil, nil, err
		}
	}
	return slices.Sorted(maps.Keys(roles)), roles, nil
}

func (job *trainingJob) PodSets(context.Context, client.Client) ([]kueue.PodSet, error) {
	names, roles, err := job.roles()
	if err != nil {
		return nil, err
	}
	var sets []kueue.PodSet
	for _, name := range names {
		found := roles[name]
		setDefaults(&found.Template.Spec)
		set := kueue.PodSet{
			Name: kueue.PodSetReference(name), Count: found.count(), Template: found.Template,
		}
		// An elastic role may begin with less than it asks for.
		if found.Policy == "Auto" && found.Min != nil && *found.Min < set.Count {
			set.MinCount = found.Min
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// setDefaults does what the definition of Workloads does to their pods: without it, the pods of a
// Workload would never be those of its job.
func setDefaults(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			for i := range container.Ports {
				if container.Ports[i].Protocol == "" {
					container.Ports[i].Protocol = corev1.ProtocolTCP
				}
			}
			for _, probe := range []*corev1.Probe{
				container.LivenessProbe, container.ReadinessProbe, container.StartupProbe,
			} {
				if probe != nil && probe.GRPC != nil && probe.GRPC.Service == nil {
					probe.GRPC.Service = new(string)
				}
			}
		}
	}
}

func (job *trainingJob) RunWithPodSetsInfo(
	ctx context.Context, _ client.Client, infos []podset.PodSetInfo,
) error {
	names, roles, err := job.roles()
	if err != nil {
		return err
	}
	if len(infos) != len(names) {
		return podset.BadPodSetsInfoLenError(len(names), len(infos))
	}
	for i, name := range names {
		found, info := roles[name], infos[i]
		template := &found.Template
		err := podset.Merge(ctrl.LoggerFrom(ctx), &template.ObjectMeta, &template.Spec, info)
		if err != nil {
			return err
		}
		if err := job.write(name, found, info.Count); err != nil {
			return err
		}
	}
	job.setSuspend(false)
	return nil
}

func (job *trainingJob) RestorePodSetsInfo(infos []podset.PodSetInfo) bool {
	names, roles, err := job.roles()
	if err != nil || len(infos) != len(names) {
		return false
	}
	isChanged := false
	for i, name := range names {
		found, info := roles[name], infos[i]
		template := &found.Template
		isRestored := podset.RestorePodSpec(&template.ObjectMeta, &template.Spec, info)
		if isRestored || found.count() != info.Count {
			isChanged = true
			utilruntime.Must(job.write(name, found, info.Count))
		}
	}
	return isChanged
}

// write puts into the body what Kueue may change of a role, and nothing else.
func (job *trainingJob) write(name string, found *role, count int32) error {
	path := []string{"spec", "replicaSpecs", name}
	if found.count() != count {
		err := unstructured.SetNestedField(
			job.body.Object, int64(count), append(slices.Clone(path), "replicas")...,
		)
		if err != nil {
			return err
		}
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&found.Template)
	if err != nil {
		return err
	}
	for _, field := range [][]string{
		{"metadata", "labels"},
		{"metadata", "annotations"},
		{"spec", "nodeSelector"},
		{"spec", "tolerations"},
		{"spec", "schedulingGates"},
	} {
		target := append(append(slices.Clone(path), "template"), field...)
		value, exists, err := unstructured.NestedFieldCopy(converted, field...)
		if err != nil {
			return err
		}
		if !exists {
			unstructured.RemoveNestedField(job.body.Object, target...)
			continue
		}
		if err := unstructured.SetNestedField(job.body.Object, value, target...); err != nil {
			return err
		}
	}
	return nil
}
