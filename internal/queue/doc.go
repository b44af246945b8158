// Package queue bounds how many nodes of a pool wait for admission. The rollout controller tells it how many wait, the planner asks
// it before it queues a job, and a node that is refused is planned again as soon as there is room.
package queue
