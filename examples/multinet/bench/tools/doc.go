// Package tools pins, in a module of its own, the program that the bench compares multinet with. Nothing imports it.
package tools
