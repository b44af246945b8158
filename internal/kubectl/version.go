package kubectl

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

// Versions are those of the programs, as the images of their pods say.
type Versions struct {
	metav1.TypeMeta `json:",inline"`
	Client          string        `json:"client"`
	Pods            []PodsVersion `json:"pods"`
}

// PodsVersion is how many pods of a component are of a version.
type PodsVersion struct {
	// Component is operator or daemon.
	Component string `json:"component"`
	Version   string `json:"version"`
	Pods      int    `json:"pods"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (v *Versions) DeepCopyObject() runtime.Object { out := *v; return &out }

func (v *Versions) text(p page) error {
	rows := [][]string{{"client", v.Client, ""}}
	for _, c := range v.Pods {
		rows = append(rows, []string{c.Component, c.Version, strconv.Itoa(c.Pods)})
	}
	return p.table([]string{"PROGRAM", "VERSION", "PODS"}, rows, 1)
}

func (s *session) versionCommand() *cobra.Command {
	clientOnly := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command, the operator and the daemons",
		Args:  cobra.NoArgs,
	}
	c.Flags().BoolVar(&clientOnly, "client", false, "ask no API server")
	out := outputOf(c, false)
	c.RunE = func(c *cobra.Command, _ []string) error {
		v := &Versions{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Versions"}, Client: version.Current(), Pods: []PodsVersion{}}
		var failed error
		if !clientOnly {
			v.Pods, failed = s.running(c.Context())
		}
		if err := out.print(s.Out, v); err != nil {
			return err
		}
		switch {
		case apierrors.IsForbidden(failed): // no role of deploy/ lets a person see pods
			s.say("The versions of the operator and the daemons were not read: %s", forbidden(failed))
		case failed != nil:
			return failed
		case !clientOnly && len(v.Pods) == 0:
			s.say("No pod of the operator or of a daemon is there, so their versions are not known.")
		}
		for _, p := range v.Pods {
			ours, known := version.Major(v.Client)
			if theirs, also := version.Major(p.Version); known && also && ours != theirs {
				s.say("The %s is of another major version than this command: take the command of that version.", p.Component)
			}
		}
		return nil
	}
	return c
}

const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
	productName    = "node-firmware-operator"
)

// running counts the pods of the product by their images.
func (s *session) running(ctx context.Context) ([]PodsVersion, error) {
	api, err := s.connect()
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.MatchingLabels{nameLabel: productName}); err != nil {
		return nil, err
	}
	return versionsOf(pods.Items), nil
}

// versionsOf counts pods by component and version.
func versionsOf(pods []corev1.Pod) []PodsVersion {
	count := map[PodsVersion]int{}
	for i := range pods {
		if p := &pods[i]; len(p.Spec.Containers) > 0 {
			count[PodsVersion{Component: p.Labels[componentLabel], Version: tagOf(p.Spec.Containers[0].Image)}]++
		}
	}
	out := []PodsVersion{}
	for v, n := range count {
		v.Pods = n
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b PodsVersion) int {
		return cmp.Or(-cmp.Compare(a.Component, b.Component), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// tagOf is the tag of an image, or its digest where it has none.
func tagOf(image string) string {
	image, digest, _ := strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[at+1:]
	}
	return cmp.Or(digest, "unknown")
}
