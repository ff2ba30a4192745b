"""Interop: the environments of this library in the interfaces of others."""
