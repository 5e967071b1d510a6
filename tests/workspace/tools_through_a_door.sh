# Runs in a box: each tool that it has fetches from $URL, by the box's proxy and without; a line "@@ TOOL MODE CODE OUTPUT" (base64) for each.
mkdir -p brought && tar xf - -C brought
trust=$PWD/ca
export SSL_CERT_FILE=$trust GIT_SSL_CAINFO=$trust CURL_CA_BUNDLE=$trust NODE_EXTRA_CA_CERTS=$trust REQUESTS_CA_BUNDLE=$trust PIP_CERT=$trust
export npm_config_cafile=$trust CARGO_HTTP_CAINFO=$trust
export PYTHONPATH=$PWD/brought
said() { printf '@@ %s %s %s %s\n' "$1" "$2" "$3" "$(printf '%s' "$4" | base64 -w0)"; }
tool() {  # NAME PROGRAM SCRIPT
  case " ${TOOLS:-$1} " in *" $1 "*) ;; *) return ;; esac
  for mode in ${MODES:-proxy direct}; do
    if ! command -v "$2" > /dev/null; then said "$1" $mode missing ""; continue; fi
    out=$(
      mkdir "$1-$mode" && cd "$1-$mode" || exit
      [ $mode = proxy ] || unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
      timeout 100 bash -c "$3" 2> err < /dev/null || { code=$?; tail -c 600 err; exit $code; }
    )
    said "$1" $mode $? "$out"
  done
}
python() { tool "$1" python3 "python3 -c 'import $1' 2> /dev/null || { echo missing; exit; }; python3 -c '$2'"; }
cat > Get.java <<'END'
public class Get {
  public static void main(String[] words) throws Exception {
    System.out.write(new java.net.URL(words[0]).openStream().readAllBytes());
    System.out.flush();
  }
}
END
tool curl curl "curl -sS $URL/file"
tool curl-plain curl "curl -sS http://${URL#https://}/file"
tool wget wget "wget -qO- --ca-certificate=$trust $URL/file"
tool git git "git clone -q $URL/repo.git cloned && cat cloned/file"
tool pip python3 "python3 -m pip install -q --no-cache-dir --target . -i $URL/simple tiny && python3 -c 'import tiny'"
tool uv "$PWD/brought/uv" "$PWD/brought/uv pip install -q --python python3 --target . -i $URL/simple tiny && PYTHONPATH=. python3 -c 'import tiny'"
tool npm npm "npm install --silent --no-audit --registry $URL/npm/ tiny > /dev/null && node -e 'require(\"tiny\")'"
python urllib "import urllib.request as u; print(u.urlopen(\"$URL/file\").read().decode())"
python requests "import requests as r; print(r.get(\"$URL/file\", timeout=30).text)"
python httpx2 "import httpx2 as h; print(h.get(\"$URL/file\").text)"
python aiohttp "
import aiohttp, asyncio
async def get():
    async with aiohttp.ClientSession(trust_env=True) as s, s.get(\"$URL/file\") as r:
        print(await r.text())
asyncio.run(get())"
tool node-fetch node "node -e 'fetch(\"$URL/file\").then(r => r.text()).then(console.log)'"
tool node-https node "node -e 'require(\"https\").get(\"$URL/file\", r => r.pipe(process.stdout))'"
tool go go "printf 'package main\nimport (\"io\";\"net/http\";\"os\")\nfunc main() { r, e := http.Get(os.Args[1]); if e != nil { panic(e) }; io.Copy(os.Stdout, r.Body) }\n' > get.go && go run get.go $URL/file"
tool apt /usr/lib/apt/apt-helper "/usr/lib/apt/apt-helper -o Acquire::https::CaInfo=$trust download-file $URL/file got > said 2>&1 || { cat said >&2; false; }; cat got"
tool cargo cargo "mkdir -p .cargo src && echo 'fn main() {}' > src/main.rs && printf '[registries.good]\nindex = \"sparse+$URL/cargo/\"\n' > .cargo/config.toml && printf '[package]\nname = \"a\"\nversion = \"0.1.0\"\n[dependencies]\ntiny = { version = \"1\", registry = \"good\" }\n' > Cargo.toml && CARGO_HOME=\$PWD/home cargo fetch -q && cut -c4- home/registry/src/*/tiny-1.0.0/src/lib.rs"
MODES=direct  # they know no such variables
tool java javac "keytool -importcert -noprompt -alias a -file $trust -keystore t -storepass changeit && java -Djavax.net.ssl.trustStore=t -Djavax.net.ssl.trustStorePassword=changeit ../Get.java $URL/file"
# A program that knows no proxy and speaks TLS by itself.
tool openssl openssl "printf 'GET /file HTTP/1.0\r\nHost: ${URL#https://}\r\n\r\n' | openssl s_client -quiet -CAfile $trust -verify_return_error -connect ${URL#https://}:443 -servername ${URL#https://} | tail -n 1"
