// A driver of devices that do not exist, for tests of dynamic resource
// allocation on real kubelets. What it publishes, and what is to go wrong, is in
// a file that it reads again whenever the file changes. A container finds the
// names of its devices in SWELL_DEVICES.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
)

const (
	pollEvery = 100 * time.Millisecond
	cdiClass  = "device"
	// The kubelet takes a device for unknown of which it has heard nothing for so long.
	healthLasts = 30 * time.Second
)

// The content of the file.
type orders struct {
	Devices        []resourceapi.Device     `json:"devices"`
	SharedCounters []resourceapi.CounterSet `json:"sharedCounters"`
	// Devices by name that cannot be prepared, or whose preparation never ends.
	FailOn []string `json:"failOn"`
	HangOn []string `json:"hangOn"`
	// Devices that are reported as broken to the kubelet of the pods that have them.
	Unhealthy []string `json:"unhealthy"`
	// Nothing is published at all, as while a driver starts.
	Silent bool `json:"silent"`
}

type driver struct {
	health.UnimplementedDRAResourceHealthServer
	name, node, file, cdiFolder string

	mutex   sync.Mutex
	orders  orders
	changed chan struct{} // closed by the next change
}

func main() {
	d := &driver{changed: make(chan struct{})}
	kubeconfig := flag.String("kubeconfig", "", "credentials for the API server")
	root := flag.String("kubelet-root", "/var/lib/kubelet", "the kubelet's folder")
	flag.StringVar(&d.name, "driver", "gpu.example.com", "the driver's name")
	flag.StringVar(&d.node, "node", "", "the node's name, which is that of its pool, too")
	flag.StringVar(&d.file, "devices", "", "the file that says what devices there are")
	flag.StringVar(&d.cdiFolder, "cdi", "", "where containerd looks for devices")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := d.run(ctx, *kubeconfig, *root); err != nil {
		fmt.Fprintln(os.Stderr, "dra-driver:", err)
		os.Exit(1)
	}
}

func (d *driver) run(ctx context.Context, kubeconfig, root string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(root, "plugins", d.name)
	registry := filepath.Join(root, "plugins_registry")
	for _, folder := range []string{data, registry, d.cdiFolder} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(d.name),
		kubeletplugin.NodeName(d.node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(registry),
		// One claim that hangs must not hold up the others.
		kubeletplugin.Serialize(false),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	return d.follow(ctx, helper)
}

// follow publishes what the file says, each time that it says something new.
func (d *driver) follow(ctx context.Context, helper *kubeletplugin.Helper) error {
	last := "nothing read yet"
	for ctx.Err() == nil {
		content, err := os.ReadFile(d.file)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if string(content) != last {
			var read orders
			if len(content) > 0 {
				err = json.Unmarshal(content, &read)
			}
			// A file that is just being written is read again.
			if err == nil || os.IsNotExist(err) {
				last = string(content)
				d.obey(read)
				if err := helper.PublishResources(ctx, resources(d.node, read)); err != nil {
					return err
				}
				klog.InfoS("published", "devices", len(read.Devices), "silent", read.Silent)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// resources puts all devices of the node into one pool. A slice holds either devices or counters.
func resources(node string, read orders) resourceslice.DriverResources {
	if read.Silent {
		return resourceslice.DriverResources{}
	}
	parts := []resourceslice.Slice{{Devices: read.Devices}}
	if len(read.SharedCounters) > 0 {
		parts = append(parts, resourceslice.Slice{SharedCounters: read.SharedCounters})
	}
	pools := map[string]resourceslice.Pool{node: {Slices: parts}}
	return resourceslice.DriverResources{Pools: pools}
}

func (d *driver) obey(read orders) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.orders = read
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *driver) current() (orders, <-chan struct{}) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.orders, d.changed
}

// PrepareResourceClaims writes a file for each claim that names its devices to containerd.
func (d *driver) PrepareResourceClaims(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		devices, err := d.prepare(ctx, claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(
	ctx context.Context, claim *resourceapi.ResourceClaim,
) ([]kubeletplugin.Device, error) {
	faults, _ := d.current()
	byRequest := map[string][]string{}
	var devices []kubeletplugin.Device
	for _, one := range claim.Status.Allocation.Devices.Results {
		if one.Driver != d.name {
			continue
		}
		if slices.Contains(faults.HangOn, one.Device) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if slices.Contains(faults.FailOn, one.Device) {
			return nil, fmt.Errorf("device %s is ordered to fail", one.Device)
		}
		request, _, _ := strings.Cut(one.Request, "/")
		byRequest[request] = append(byRequest[request], one.Device)
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{one.Request},
			PoolName:     one.Pool,
			DeviceName:   one.Device,
			CDIDeviceIDs: []string{d.cdiKind() + "=" + cdiName(claim.UID, request)},
			ShareID:      one.ShareID,
		})
	}
	return devices, d.writeCDI(claim.UID, byRequest)
}

func (d *driver) cdiKind() string { return d.name + "/" + cdiClass }

func cdiName(claim types.UID, request string) string { return string(claim) + "-" + request }

func (d *driver) cdiFile(claim types.UID) string {
	return filepath.Join(d.cdiFolder, d.name+"-"+string(claim)+".json")
}

// writeCDI makes one device of each request: a container that asks for one request of a claim
// gets the names of that one.
func (d *driver) writeCDI(claim types.UID, byRequest map[string][]string) error {
	type object = map[string]any
	var devices []object
	for request, names := range byRequest {
		// Of two requests in one container the second would hide the first.
		own := "SWELL_DEVICES_" + strings.ToUpper(strings.ReplaceAll(request, "-", "_"))
		value := "=" + strings.Join(names, ",")
		edits := object{"env": []string{"SWELL_DEVICES" + value, own + value}}
		devices = append(devices, object{"name": cdiName(claim, request), "containerEdits": edits})
	}
	spec := object{"cdiVersion": "0.6.0", "kind": d.cdiKind(), "devices": devices}
	content, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	// containerd must never see half a file, nor one that only begins to be there.
	draft := d.cdiFile(claim) + ".tmp"
	if err := os.WriteFile(draft, content, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, d.cdiFile(claim))
}

// UnprepareResourceClaims removes what was written for the claims.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		err := os.Remove(d.cdiFile(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

// HandleError says what went wrong beside a request; the helper tries again by itself.
func (d *driver) HandleError(_ context.Context, err error, message string) {
	klog.ErrorS(err, message)
}

// NodeWatchResources tells the kubelet how every device is, at once and on each change.
func (d *driver) NodeWatchResources(
	_ *health.NodeWatchResourcesRequest, stream health.DRAResourceHealth_NodeWatchResourcesServer,
) error {
	for {
		now, changed := d.current()
		answer := &health.NodeWatchResourcesResponse{}
		for _, one := range now.Devices {
			state := health.HealthStatus_HEALTHY
			if slices.Contains(now.Unhealthy, one.Name) {
				state = health.HealthStatus_UNHEALTHY
			}
			answer.Devices = append(answer.Devices, &health.DeviceHealth{
				Device:          &health.DeviceIdentifier{PoolName: d.node, DeviceName: one.Name},
				Health:          state,
				LastUpdatedTime: time.Now().Unix(),
			})
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		case <-time.After(healthLasts / 3):
		}
	}
}
