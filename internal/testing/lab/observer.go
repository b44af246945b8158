package lab

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// observer watches every change of every Node and remembers how many were disturbed at once: cordoned or not Ready.
type observer struct {
	mu        sync.Mutex
	disturbed map[string]bool
	known     map[string]bool
	max       int
}

// observe watches until the context ends. It returns when the watch is open, so that nothing is missed.
func (l *Lab) observe(ctx context.Context) (*observer, error) {
	o := &observer{disturbed: map[string]bool{}, known: map[string]bool{}}
	w, err := l.admin.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	go func() {
		for ctx.Err() == nil {
			for event := range w.ResultChan() {
				o.note(event)
			}
			for ctx.Err() == nil {
				if w, err = l.admin.Watch(ctx, &corev1.NodeList{}); err == nil {
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		}
	}()
	return o, nil
}

func (o *observer) note(event watch.Event) {
	node, ok := event.Object.(*corev1.Node)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	ready := false
	for _, c := range node.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	// A node counts from the moment it was Ready first: before that it has nothing to lose.
	o.known[node.Name] = o.known[node.Name] || ready
	if event.Type != watch.Deleted && o.known[node.Name] && (node.Spec.Unschedulable || !ready) {
		o.disturbed[node.Name] = true
	} else {
		delete(o.disturbed, node.Name)
	}
	o.max = max(o.max, len(o.disturbed))
}

func (o *observer) maxDisturbed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.max
}
