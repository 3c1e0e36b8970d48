"""Requests to S3 are signed as its documentation says."""

from datetime import UTC, datetime

import pytest

from atlas.outgoing.s3_signature import S3Credentials, signed_headers


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "signature"),
    [
        (
            "GET",
            "/test.txt",
            {"range": "bytes=0-9"},
            b"",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        ("GET", "/?lifecycle=", {}, b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("GET", "/?max-keys=2&prefix=J", {}, b"", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_a_request_is_signed_as_in_the_published_examples(method, path, headers, content, signature):
    login = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
    url = f"https://examplebucket.s3.amazonaws.com{path}"

    signed = signed_headers(login, method, url, headers, content, datetime(2013, 5, 24, tzinfo=UTC))

    assert signed["authorization"].endswith(f"Signature={signature}")
