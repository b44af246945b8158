package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Bounds of a bundle.
const (
	// bundleSize is how large the file may become, where --max-size says nothing.
	bundleSize = "100Mi"
	// smallestBundle has room for what is said of the bundle itself.
	smallestBundle = 2 << 20
	// logLines are asked for of a container, and of what is answered logRead bytes are read and the last logKept kept.
	logLines, logRead, logKept = 5000, 8 << 20, 1 << 20
	// mostLogs is of how many pods the logs are asked for: those of the operator, then of nodes that need a person, then others.
	mostLogs = 50
	// mostNotes is how many lines say what is missing.
	mostNotes = 1000
)

// podLogs streams the log of a container.
type podLogs func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)

func (s *session) bundleCommand() *cobra.Command {
	file, most, nodes := "", bundleSize, []string(nil)
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Put what support needs into one file, without secrets",
		Long: "Put what support needs into one file: the objects of the product, Nodes without what is not needed, the product's pods with their logs, its Deployments and DaemonSets, " +
			"events and versions. Secrets are not read. Values of environment variables, annotations of others, who logs in by a URL, what follows its question mark, and what looks like " +
			"a password or token are taken out, also of logs. What may not be read is said, here and in the file.",
		Example: "  kubectl firmware bundle\n" +
			"  kubectl firmware bundle -o ticket-4711.tar.gz --node gpu-017",
		Args: cobra.NoArgs,
	}
	c.Flags().StringVarP(&file, "output", "o", "", "the file to write, which must not be there (default: node-firmware-bundle-TIME.tar.gz)")
	c.Flags().StringVar(&most, "max-size", most, "how large the file may become; what has no room is said")
	c.Flags().StringSliceVar(&nodes, "node", nil, "take the logs of this node first; may be repeated")
	_ = c.RegisterFlagCompletionFunc("node", s.completeNames("NodeFirmware"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		size, err := resource.ParseQuantity(most)
		if err != nil || size.Value() < smallestBundle {
			return fmt.Errorf("--max-size %s: want a size of at least 2Mi, such as %s", most, bundleSize)
		}
		api, err := s.connect()
		if err != nil {
			return err
		}
		if err := api.List(c.Context(), &v1alpha1.NodeFirmwareList{}, client.Limit(1)); err != nil && !apierrors.IsForbidden(err) {
			return err // there is nothing to bundle, or nobody to ask
		}
		if file == "" {
			file = "node-firmware-bundle-" + s.now().UTC().Format("20060102-150405") + ".tar.gz"
		}
		return s.bundle(c.Context(), api, file, size.Value(), nodes)
	}
	return c
}

// bundle writes the file, or leaves none.
func (s *session) bundle(ctx context.Context, api client.Client, file string, most int64, nodes []string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and is not overwritten: name another file with -o", file)
	}
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	b := &bundle{ctx: ctx, api: api, logs: s.logs, archive: newArchive(f, most, s.now()), first: nodes, now: s.now()}
	if b.logs == nil {
		b.logs, err = s.realLogs()
	}
	if err == nil {
		b.scope = *s.flags.Namespace
		err = b.gather()
	}
	if err == nil {
		err = b.archive.close()
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write bundle: %w; nothing is left of it", err), os.Remove(file))
	}
	for _, note := range b.notes {
		s.say("%s", note)
	}
	s.say("Secrets were taken out as far as they can be told. Look through the file before you give it away: tar -xzf %s", file)
	_, err = fmt.Fprintln(s.Out, file)
	return err
}

func (s *session) realLogs() (podLogs, error) {
	api, err := corev1client.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return api.Pods(namespace).GetLogs(pod, o).Stream(ctx)
	}, nil
}

// bundle is one that is being written.
type bundle struct {
	ctx     context.Context
	api     client.Client
	logs    podLogs
	archive *archive
	// scope is the namespace to which pods and the like are confined; empty for all.
	scope string
	// first are the nodes whose logs go first, and concern those that need a person.
	first, concern []string
	pods           []corev1.Pod
	namespaces     []string
	// notes say what is missing.
	notes []string
	now   time.Time
}

// note says that something is missing. Why it is may have come from a server.
func (b *bundle) note(format string, args ...any) {
	if len(b.notes) < mostNotes {
		b.notes = append(b.notes, redactText(fmt.Sprintf(format, args...)))
	}
}

// unread notes why something was not read, and returns what ends the bundle: that nobody wants it any more, or that it cannot be written.
func (b *bundle) unread(what string, err error) error {
	var written *archiveError
	switch {
	case err == nil:
	case b.ctx.Err() != nil, errors.As(err, &written):
		return err
	case apierrors.IsForbidden(err):
		b.note("Not read: %s: %s", what, forbidden(err))
	case meta.IsNoMatchError(err), reading.IsMissingKind(err):
		b.note("Not read: %s: the API server does not serve them.", what)
	default:
		b.note("Not read: %s: %v", what, err)
	}
	return nil
}

func (b *bundle) gather() error {
	for _, part := range []func() error{b.objects, b.nodes, b.workloads, b.events, b.podLogs, b.about} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// objects are all those of the product's kinds.
func (b *bundle) objects() error {
	kinds, err := scheme()
	if err != nil {
		return err
	}
	var names []string
	for kind := range kinds.KnownTypes(v1alpha1.GroupVersion) {
		if _, is := kinds.KnownTypes(v1alpha1.GroupVersion)[kind+"List"]; is {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	for _, kind := range names {
		list, err := kinds.New(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if err != nil {
			return err
		}
		err = b.list("objects/"+kind, kind, list.(client.ObjectList), client.ListOptions{}, func(o client.Object) client.Object {
			if n, is := o.(*v1alpha1.NodeFirmware); is && (n.Status.HeldBy != "" || explain.Concern(n.Status.Conditions) != nil) {
				b.concern = append(b.concern, n.Name)
			}
			return o
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nodes are those of the cluster: who they are, which versions of everything else run there, and whether they are in service.
func (b *bundle) nodes() error {
	return b.list("nodes", "Node", &corev1.NodeList{}, client.ListOptions{}, func(o client.Object) client.Object {
		n := o.(*corev1.Node)
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, CreationTimestamp: n.CreationTimestamp, DeletionTimestamp: n.DeletionTimestamp, Labels: n.Labels, Annotations: n.Annotations},
			Spec:       corev1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable},
			Status:     corev1.NodeStatus{Conditions: n.Status.Conditions, NodeInfo: n.Status.NodeInfo},
		}
	})
}

// workloads are what runs the product.
func (b *bundle) workloads() error {
	ours := client.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{nameLabel: productName}), Namespace: b.scope}
	for _, of := range []struct {
		kind string
		list client.ObjectList
	}{{"Deployment", &appsv1.DeploymentList{}}, {"DaemonSet", &appsv1.DaemonSetList{}}, {"Pod", &corev1.PodList{}}} {
		err := b.list("workloads/"+of.kind, of.kind, of.list, ours, func(o client.Object) client.Object {
			if !slices.Contains(b.namespaces, o.GetNamespace()) {
				b.namespaces = append(b.namespaces, o.GetNamespace())
			}
			if p, is := o.(*corev1.Pod); is {
				b.pods = append(b.pods, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels},
					Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName, Containers: p.Spec.Containers, InitContainers: p.Spec.InitContainers}, Status: p.Status,
				})
			}
			return o
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// events are those about objects of the product, which are in the namespace default, and those in the namespaces where it runs.
func (b *bundle) events() error {
	about := fields.SelectorFromSet(fields.Set{"involvedObject.apiVersion": v1alpha1.GroupVersion.String()})
	keep := func(o client.Object) client.Object { return o }
	err := b.list("events/objects", "Event", &corev1.EventList{}, client.ListOptions{Namespace: metav1.NamespaceDefault, FieldSelector: about}, keep)
	for _, namespace := range b.namespaces {
		if err != nil {
			return err
		}
		err = b.list("events/"+namespace, "Event", &corev1.EventList{}, client.ListOptions{Namespace: namespace}, keep)
	}
	return err
}

// list adds the objects of a list, a page a file, as they are kept and without secrets.
func (b *bundle) list(dir, kind string, list client.ObjectList, o client.ListOptions, keep func(client.Object) client.Object) error {
	var page []map[string]any
	pages := 0
	flush := func() error {
		if len(page) == 0 {
			return nil
		}
		pages++
		content, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": page}, "", " ")
		page = page[:0]
		return cmp.Or(err, b.add(fmt.Sprintf("%s/%04d.json", dir, pages), content))
	}
	gvk, err := b.api.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	err = reading.EachOf(b.ctx, b.api, list, o, func(o client.Object) error {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(keep(o))
		if err != nil {
			return err
		}
		m["apiVersion"], m["kind"] = gvk.GroupVersion().String(), kind
		redact(m)
		if page = append(page, m); len(page) < reading.PageSize {
			return nil
		}
		return flush()
	})
	return b.unread(dir, cmp.Or(err, flush()))
}

// add adds a file, or notes that it has no room.
func (b *bundle) add(name string, content []byte) error {
	if !b.archive.hasRoom(len(content)) {
		b.note("Left out, because the file may not become larger (--max-size): %s", name)
		return nil
	}
	return b.archive.add(name, content)
}

// podLogs adds what the containers of the product have written, and what they wrote before they were started again.
func (b *bundle) podLogs() error {
	rank := func(p corev1.Pod) int {
		switch {
		case p.Labels[componentLabel] == "operator":
			return 0
		case slices.Contains(b.first, p.Spec.NodeName):
			return 1
		case slices.Contains(b.concern, p.Spec.NodeName):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(b.pods, func(p, q corev1.Pod) int { return cmp.Or(cmp.Compare(rank(p), rank(q)), cmp.Compare(p.Name, q.Name)) })
	if more := len(b.pods) - mostLogs; more > 0 {
		b.note("Left out: the logs of %s, which are of nodes that need nobody. To have those of a node: --node", text.Quantity(more, "pod", "pods"))
	}
	for _, p := range b.pods[:min(len(b.pods), mostLogs)] {
		again := map[string]bool{}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			again[c.Name] = c.RestartCount > 0 || c.LastTerminationState.Terminated != nil
		}
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, previous := range []bool{false, true} {
				if previous && !again[c.Name] {
					continue
				}
				if err := b.log(&p, c.Name, previous); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bundle) log(p *corev1.Pod, container string, previous bool) error {
	name := fmt.Sprintf("logs/%s/%s/%s.log", p.Namespace, p.Name, container)
	if previous {
		name = fmt.Sprintf("logs/%s/%s/%s.previous.log", p.Namespace, p.Name, container)
	}
	in, err := b.logs(b.ctx, p.Namespace, p.Name, &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true, TailLines: new(int64(logLines))})
	if err != nil {
		return b.unread(name, err)
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, logRead+1))
	if len(content) > logRead {
		b.note("Not whole: %s: only the first %d MiB of its last lines were read.", name, logRead>>20)
		content = content[:logRead]
	}
	if len(content) > logKept { // a line that is cut may have lost the name by which a secret is told
		content = content[len(content)-logKept:]
		_, content, _ = bytes.Cut(content, []byte("\n"))
	}
	if err := b.unread(name, err); err != nil {
		return err
	}
	return b.add(name, []byte(redactText(string(content))))
}

// about says what the bundle is of, and what is missing in it.
func (b *bundle) about() error {
	if len(b.pods) == 0 {
		b.note("No pod of the product was read, so that there is no log, and the versions of the operator and the daemons are not known.")
	}
	about := struct {
		Time    string   `json:"time"`
		Version Versions `json:"versions"`
		Missing []string `json:"missing"`
	}{b.now.UTC().Format(time.RFC3339), Versions{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Versions"}, Client: version.Current(), Pods: versionsOf(b.pods)}, b.notes}
	if about.Missing == nil {
		about.Missing = []string{}
	}
	content, err := json.MarshalIndent(about, "", " ")
	return cmp.Or(err, b.archive.add("about.json", content))
}

// archiveRoot is the directory in the archive.
const archiveRoot = "node-firmware-bundle/"

// archiveError says that the archive could not be written.
type archiveError struct{ error }

func (e *archiveError) Unwrap() error { return e.error }
