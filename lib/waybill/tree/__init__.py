"""Working trees: what a repository was before a run and after it, as trees and patches."""
