"""A certificate for localhost."""
import subprocess

subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days", "3650", "-subj", "/CN=localhost/O=Example/OU=Test",
                "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem",
                "-out", "certificate.pem"], check=True)
