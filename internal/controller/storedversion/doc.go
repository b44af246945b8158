// Package storedversion has the objects of the product's kinds stored anew when the version changes in which the API server stores them.
package storedversion
