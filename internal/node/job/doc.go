// Package job executes firmware jobs on the host it runs on, step by step, from a durable journal.
package job
