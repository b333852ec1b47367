"""Executes a notebook, and fails where a cell does: `run_notebook.py NOTEBOOK [OUT]`. With OUT, what came out is written there."""

import sys
import time

import nbformat
from nbclient import NotebookClient


def main(path, out=None):
    begun = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    if out is not None:
        nbformat.write(notebook, out)
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    print(f"{path}: {cells} cells in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
