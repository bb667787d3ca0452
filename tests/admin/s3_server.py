"""A small server of S3's protocol: it keeps objects, and checks signatures by the specification and none of our code."""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-central-1"

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/s3/aws4_request, ?"
    r"SignedHeaders=(?P<names>[a-z0-9;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


class S3Server:
    """`objects`: by path. `status`: what is answered in place of 200; `puts`: the paths of all requests, in order."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.status = 200
        self.refusals: list[str] = []
        self.heard = threading.Condition()
        s3 = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                refusal = s3.refusal(self.path, self.headers, body)
                status = 403 if refusal else s3.status
                with s3.heard:
                    s3.puts.append(self.path)
                    if refusal:
                        s3.refusals.append(refusal)
                    if status == 200:
                        s3.objects[self.path] = body
                    s3.heard.notify_all()
                text = b"" if status == 200 else b"<Error><Code>SlowDown</Code></Error>"
                self.send_response(status)
                self.send_header("location", "http://127.0.0.1:9/")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def wait_for_objects(self, number: int) -> dict[str, bytes]:
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.objects) >= number, 20), (self.puts, self.refusals)
            return dict(self.objects)

    def refusal(self, path: str, headers: Any, body: bytes) -> str:
        """Why S3 would refuse a request; empty: it would not."""
        found = AUTHORIZATION.fullmatch(headers["authorization"] or "")
        if found is None or (found["key"], found["region"]) != (KEY, REGION):
            return "no authorization of this account"
        digest = hashlib.sha256(body).hexdigest()
        if headers["x-amz-content-sha256"] != digest:
            return "the digest is that of another body"
        moment, names = headers["x-amz-date"], found["names"].split(";")
        if {"host", "x-amz-date", "x-amz-content-sha256"} - set(names) or names != sorted(names):
            return "headers that must be signed are not"
        lines = [f"{name}:{headers[name].strip()}" for name in names]
        request = "\n".join(["PUT", path, "", *lines, "", found["names"], digest])
        scope = f"{found['day']}/{REGION}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = b"AWS4" + SECRET.encode()
        for part in (found["day"], REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        is_right = hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), found["signature"])
        return "" if is_right and moment.startswith(found["day"]) else "the signature is another one"
