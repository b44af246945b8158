// Package certificate makes SanitizationCertificates of what a job reports, signs them, and verifies those that it is shown.
package certificate
