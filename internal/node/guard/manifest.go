package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	// podName is the name of the static pod; the kubelet appends that of the node.
	podName = "node-firmware-guard"
	// ManifestFile is the name of the file in the kubelet's directory.
	ManifestFile = podName + ".yaml"
	// Command is the subcommand of the daemon's program that a guard runs.
	Command = "guard"
	// ServerFlag is the flag of Command with the URL at which the kubelet reaches the API server.
	ServerFlag = "api-server"
)

// subcommands are those of a process that executes jobs.
var subcommands = []string{"run", "job"}

// manifest is the static pod of a guard: the pod of the process that executes the job, with the same image, rights, settings
// and files of the host, and without anything that the API server would have to hand out. The kubelet refuses a static
// pod that refers to an object of the API. The id differs each time: the kubelet makes the uid of a static pod of its content, and one that
// comes back under the uid of one that ends may not be started before the API server answers (kubernetes/kubernetes#105543).
func manifest(own *corev1.Pod, id, server, profileDir, keysDir string) ([]byte, error) {
	at := slices.IndexFunc(own.Spec.Containers, func(c corev1.Container) bool {
		return len(c.Args) > 0 && slices.Contains(subcommands, c.Args[0])
	})
	if at < 0 {
		return nil, fmt.Errorf("pod %s has no container whose arguments begin with run or job", own.Name)
	}
	from := own.Spec
	if name := ptr.Deref(from.RuntimeClassName, ""); name != "" {
		return nil, fmt.Errorf("pod %s has the runtime class %s, which a kubelet knows only from the API server", own.Name, name)
	}
	volumes := slices.DeleteFunc(slices.Clone(from.Volumes), func(v corev1.Volume) bool { return v.HostPath == nil && v.EmptyDir == nil })
	has := func(name string) bool {
		return slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == name })
	}
	c := from.Containers[at]
	image, err := imageOf(own, c)
	if err != nil {
		return nil, err
	}
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: own.Namespace, Name: podName,
			// Other labels than the daemon's: its DaemonSet must not take the pod for one of its own.
			Labels:      map[string]string{"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": "guard"},
			Annotations: map[string]string{"nodefirmware.io/guard": id},
		},
		Spec: corev1.PodSpec{
			HostPID: from.HostPID, HostNetwork: from.HostNetwork, HostIPC: from.HostIPC, SecurityContext: from.SecurityContext,
			Priority: from.Priority, PriorityClassName: from.PriorityClassName, PreemptionPolicy: from.PreemptionPolicy,
			TerminationGracePeriodSeconds: from.TerminationGracePeriodSeconds,
			DNSPolicy:                     corev1.DNSDefault, RestartPolicy: corev1.RestartPolicyAlways,
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			Volumes: volumes,
			Containers: []corev1.Container{{
				Name: Command, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: c.Command, WorkingDir: c.WorkingDir,
				Args: arguments(c.Args, server, profileDir, keysDir), SecurityContext: c.SecurityContext, Resources: c.Resources,
				Env:          environment(c.Env),
				VolumeMounts: slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m corev1.VolumeMount) bool { return !has(m.Name) }),
			}},
		},
	}
	out, err := yaml.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("write static pod: %w", err)
	}
	return out, nil
}

// environment are the variables that need no object of the API. Resources are those of the one container of a guard.
func environment(from []corev1.EnvVar) (out []corev1.EnvVar) {
	for _, e := range from {
		switch v := e.ValueFrom; {
		case v == nil || v.FieldRef != nil:
			out = append(out, e)
		case v.ResourceFieldRef != nil:
			e.ValueFrom = v.DeepCopy()
			e.ValueFrom.ResourceFieldRef.ContainerName = Command
			out = append(out, e)
		}
	}
	return out
}

// pullable is what cri-dockerd puts before an image with a digest. A kubelet takes no image that is named so.
const pullable = "docker-pullable://"

// imageOf is the image that the container runs, by its digest where the kubelet reports one: a tag may come to name another image. An
// image that was imported, and not pulled, is reported under a repository of its own (import-2026-11-22@sha256:...), which no kubelet
// finds: only names by which images were pulled can be asked for.
func imageOf(own *corev1.Pod, c corev1.Container) (string, error) {
	for _, s := range own.Status.ContainerStatuses {
		id := strings.TrimPrefix(s.ImageID, pullable)
		repository, _, digest := strings.Cut(id, "@sha256:")
		if s.Name == c.Name && digest && strings.HasSuffix("/"+repository, "/"+repositoryOf(c.Image)) {
			return id, nil
		}
	}
	if c.Image == "" {
		return "", errors.New("the container of this process names no image")
	}
	return c.Image, nil
}

// repositoryOf is the name of an image without its tag and its digest.
func repositoryOf(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		return name[:at]
	}
	return name
}

// arguments are those of the process, for the subcommand of a guard. Of a flag that is there twice the last counts.
func arguments(args []string, server, profileDir, keysDir string) []string {
	out := []string{Command}
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "--name=") { // the job of a pod that executes one
			out = append(out, a)
		}
	}
	return append(out, "--profile-dir="+profileDir, "--image-keys-dir="+keysDir, "--"+ServerFlag+"="+server)
}
