#!/usr/bin/env bash
# Makes an authority and a server's certificate, for tests: certify.sh FOLDER writes ca.pem, server.pem
# and server.key there. The server is 127.0.0.1 and has no other name.
set -euo pipefail

cd "$1"
quiet() { openssl "$@" 2>certify.log || { cat certify.log >&2; exit 1; }; }
curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
quiet req -x509 "${curve[@]}" -keyout ca.key -out ca.pem -days 3650 -subj "/CN=authority of a test"
quiet req "${curve[@]}" -keyout server.key -out server.csr -subj "/CN=server of a test"
printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >server.ext
quiet x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 \
    -extfile server.ext -out server.pem
rm -f -- ca.key ca.srl server.csr server.ext certify.log
chmod 600 server.key
