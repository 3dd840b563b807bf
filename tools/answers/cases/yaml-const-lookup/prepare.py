"""The configuration of 800 tenants, most of which set no option."""
import os
import pathlib

lines = ["tenants:"]
for tenant in range(800):
    lines.append(f"  - name: tenant-{tenant}")
    lines.append(f"    address: host{tenant}.example.com")
    if tenant % 10 == 0:
        lines.append("    timeout: 60")
pathlib.Path(os.environ["INPUT"], "config.yaml").write_text("\n".join(lines) + "\n")
