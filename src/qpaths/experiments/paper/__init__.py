"""The experiments of the paper, one file per table or figure. `shared/` has what several of them use."""
