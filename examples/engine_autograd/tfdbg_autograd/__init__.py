"""An engine of tfdbg_cli for autograd."""
