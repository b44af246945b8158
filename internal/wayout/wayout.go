package wayout

import "fmt"

// Request makes a request in the spec of an object: the present time is a text that was not there before.
func Request(kind, name, request string) string {
	return fmt.Sprintf(`kubectl patch %s %s --type merge -p "{\"spec\":{\"requests\":{\"%s\":\"$(date -u +%%FT%%TZ)\"}}}"`, kind, name, request)
}

// Retry has what failed on a node tried again.
func Retry(node string) string { return Request("nfw", node, "retry") }

// Set changes fields of the spec of an object, given as JSON.
func Set(kind, name, fields string) string {
	return fmt.Sprintf(`kubectl patch %s %s --type merge -p '{"spec":{%s}}'`, kind, name, fields)
}

// State sets the state in the spec of an object.
func State[T ~string](kind, name string, state T) string {
	return Set(kind, name, fmt.Sprintf(`"state":"%s"`, state))
}

// pods selects those of a component, by the labels of deploy/kustomize.
const pods = "app.kubernetes.io/name=node-firmware-operator,app.kubernetes.io/component="

// RestartDaemon has the daemon of a node look at its tools again.
func RestartDaemon(node string) string {
	return "kubectl delete pod -A -l " + pods + "daemon --field-selector spec.nodeName=" + node
}

// DaemonPod shows the pod of the daemon on a node, where there is one.
func DaemonPod(node string) string {
	return "kubectl get pods -A -o wide -l " + pods + "daemon --field-selector spec.nodeName=" + node
}

// Handlers adds a handler to those of the strategy pod, which the operator reads when it starts.
func Handlers(namespace string) string {
	return fmt.Sprintf("kubectl -n %s edit configmap node-firmware-pod-handlers && kubectl -n %[1]s delete pod -l %[2]soperator", namespace, pods)
}

// Edit corrects the spec of an object.
func Edit(kind, name string) string { return fmt.Sprintf("kubectl edit %s %s", kind, name) }

// Serve returns a node that is out of service.
func Serve(node string) string { return Set("nfw", node, `"service":"InService"`) }

// ServeAsItIs returns a node that is out of service and not clean.
func ServeAsItIs(node string) string {
	return fmt.Sprintf(`kubectl patch nfw %s --type merge -p "{\"spec\":{\"service\":\"InService\",\"requests\":{\"release\":\"$(date -u +%%FT%%TZ)\"}}}"`, node)
}
